"""What every act of a process shares: connections are slow to make."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from marq.core import names
from marq.kafka import config
from marq.kafka.act.seeker import Seeker
from marq.kafka.act.transactions import Transactions
from marq.kafka.admin import Admin

_TIMEOUT_S = 10.0
_KEPT_S = 60.0
"""How long a producer is kept for the next act: what falls due seldom comes alone."""
_KEPT = 16

Place = tuple[str, int]
"""A hold log and one of its partitions."""


class Tools:
    """Reads and writes for acts, one after the other."""

    def __init__(self, servers: str, extra: config.Config) -> None:
        self._servers, self._extra = servers, extra
        self._admin = Admin(config.common(servers, extra), _TIMEOUT_S)
        self.seeker = Seeker(config.reader(servers, extra))
        self._delayed_partitions = 0
        self._kept: dict[Place, tuple[Transactions, float]] = {}
        """Producers for the next acts, and until when."""

    @contextmanager
    def opened(self, topic: str, partition: int) -> Iterator[Transactions]:
        """The partition's producer.

        The one an earlier act left behind, if there is one: to open it costs more than to write.
        It is as good as a new one. If it is the last one opened, nobody else can have anything
        under way; if it is not, all it writes is refused. After an error it is opened anew, so
        that whatever was begun is over.
        """
        place = topic, partition
        producer, _ = self._kept.pop(place, (None, 0.0))
        self._let_go()
        found = producer or self.open(topic, partition)
        try:
            yield found
        except BaseException:
            found.close()
            raise
        self._kept[place] = found, time.monotonic() + _KEPT_S

    def _let_go(self) -> None:
        """Close what was not used for a while, or is too much."""
        now = time.monotonic()
        for place, (producer, until) in list(self._kept.items()):  # the oldest first
            if until < now or len(self._kept) >= _KEPT:
                producer.close()
                del self._kept[place]

    def open(self, topic: str, partition: int) -> Transactions:
        """The partition's producer, anew: every earlier one is fenced."""
        return Transactions(
            config.producer(self._servers, self._extra, 0), transactional_id(topic, partition)
        )

    def end(self, topic: str, partition: int) -> int:
        """The high watermark, whether transactions below it are decided or not."""
        return self._admin.end(topic, partition)

    def topic_id(self, topic: str) -> bytes | None:
        """The topic's id; None if there is none."""
        return self._admin.topic_id(topic)

    @property
    def delayed_partitions(self) -> int:
        """How many partitions parked messages have; that never changes."""
        if not self._delayed_partitions:
            found = self._admin.describe(names.DELAYED)
            self._delayed_partitions = found[1] if found else 1
        return self._delayed_partitions


def transactional_id(topic: str, partition: int) -> str:
    """Under which one act at a time may write."""
    return f"marq.tracker.{topic}.{partition}"
