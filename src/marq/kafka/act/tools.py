"""What every act of a process shares: connections are slow to make."""

from __future__ import annotations

from marq.core import names
from marq.kafka import config
from marq.kafka.act.seeker import Seeker
from marq.kafka.act.transactions import Transactions
from marq.kafka.admin import Admin

_TIMEOUT_S = 10.0


class Tools:
    """Reads and writes for acts, one after the other."""

    def __init__(self, servers: str, extra: config.Config) -> None:
        self._servers, self._extra = servers, extra
        self._admin = Admin(config.common(servers, extra), _TIMEOUT_S)
        self.seeker = Seeker(config.reader(servers, extra))
        self._delayed_partitions = 0

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
