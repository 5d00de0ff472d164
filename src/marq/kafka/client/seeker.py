"""A consumer that is sent from place to place: tails of hold logs, payloads of messages."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import KafkaException, TopicPartition

from marq.errors import ConfigError, NotConnected
from marq.kafka.client import codes
from marq.kafka.client.config import Config
from marq.kafka.client.making import Consumer, take, warm

_QUIET_S = 10.0
_FEW = 200
_LISTED_S = 300.0
"""A consumer forgets where a topic lies that it does not read, after 15 minutes."""

Place = tuple[str, int]
"""Topic and partition."""
Stretch = tuple[str, int, int, int]
"""Topic, partition, first offset, and the one after the last."""


class Seeker:
    """Reads stretches of partitions, as far as transactions are decided."""

    def __init__(self, settings: Config) -> None:
        # What is read lies there. A fetch that waits for more would keep the next read waiting, for
        # a broker answers one after the other.
        own = {"enable.partition.eof": True, "fetch.wait.max.ms": 5}
        self._consumer = warm(Consumer({**settings, **own}))
        self._listed: dict[str, float] = {}
        """Until when the consumer knows where a topic lies."""
        self.reached: dict[Place, int] = {}
        """How far the last read came, by partition."""
        self._left: dict[Place, int] = {}
        self._starts: dict[Place, int] = {}
        self._at_end: set[Place] = set()
        """Partitions of which all is read that can be."""
        self._given_up: dict[Place, str] = {}
        """Partitions that cannot be read, and why; empty: they are not found."""

    def read(self, spans: list[Stretch], undecided_s: float = 0.0) -> Iterator[Any]:
        """The records of these spans, at most one of a partition, that are there.

        Where a transaction is undecided it waits so long for it, then goes without; `reached`
        tells how far it came. What may not be read is an error when all else was read.
        """
        self.reached, self._at_end, self._given_up = {}, set(), {}
        self._left = {(topic, number): end for topic, number, start, end in spans if start < end}
        if not self._left:
            return
        self._find({topic for topic, _, _, _ in spans})
        self._starts = {(topic, number): start for topic, number, start, _ in spans}
        self._consumer.assign([TopicPartition(t, n, at) for t, n, at, _ in spans])
        try:
            yield from self._until(time.monotonic() + undecided_s)
        finally:
            self._consumer.unassign()
        for (topic, _), why in self._given_up.items():
            if why:
                raise ConfigError(f"the cluster refuses reading {topic!r}: {why}")

    @property
    def unread(self) -> list[Place]:
        """Where the last read has not come to its end, though the log may go on there."""
        return [*self._left, *self._given_up]

    def _find(self, topics: set[str]) -> None:
        """Ask where topics lie: a consumer that is told to read some it does not know takes 790 ms
        to find them all out, and this 3 for each."""
        now = time.monotonic()
        unknown = [topic for topic in topics if now >= self._listed.get(topic, now)]
        with contextlib.suppress(KafkaException):  # away: the read will tell
            for topic in unknown if len(unknown) <= _FEW else ():
                self._consumer.list_topics(topic, timeout=_QUIET_S)
        self._listed |= dict.fromkeys(unknown, now + _LISTED_S)

    def _until(self, decided_by: float) -> Iterator[Any]:
        quiet_until = time.monotonic() + _QUIET_S
        while self._left:
            batch = take(self._consumer, 10_000, 0.05)
            yield from filter(self._is_wanted, batch)
            stuck = self._at_end.issuperset(self._left)
            if stuck and time.monotonic() >= decided_by:
                return
            if batch or stuck:
                quiet_until = time.monotonic() + _QUIET_S
            elif time.monotonic() > quiet_until:
                raise NotConnected("no broker answers the tracker's reads")

    def _is_wanted(self, message: Any) -> bool:
        """Whether it is a record to be read; whatever it is, note how far that partition is."""
        place, error = (message.topic(), message.partition()), message.error()
        if error is None:
            wanted = bool(message.offset() < self._left.get(place, 0))
            self._at_end.discard(place)
            self._passed(place, message.offset() + 1)
            return wanted
        if codes.is_end(error):
            self._at_end.add(place)
            self._passed(place, message.offset())
        elif codes.is_off_the_log(error):
            self._go_on(place)
        elif codes.is_gone(error):  # a broker that is away is waited for
            self._give_up(place, "")
        elif codes.is_topic_denied(error):
            self._give_up(place, error.str())
        return False

    def _give_up(self, place: Place, why: str) -> None:
        """Waiting changes nothing; the others are read all the same."""
        if self._left.pop(place, None) is not None:
            self._given_up[place] = why

    def _go_on(self, place: Place) -> None:
        """The log begins behind where the span does: what of it is there is read."""
        end = self._left.pop(place, 0)
        at = TopicPartition(*place)
        try:
            at.offset, _ = self._consumer.get_watermark_offsets(at, timeout=_QUIET_S)
        except KafkaException as error:
            self._left[place] = end
            raise NotConnected(f"nobody tells where {place[0]!r} starts: {error}") from None
        # Not by seek: librdkafka has stopped fetching it.
        self._consumer.incremental_unassign([at])
        if self._starts[place] < at.offset < end:
            self._starts[place], self._left[place] = at.offset, end
            self._consumer.incremental_assign([at])

    def _passed(self, place: Place, offset: int) -> None:
        self.reached[place] = offset
        if offset >= self._left.get(place, offset + 1):
            del self._left[place]

    def close(self) -> None:
        self._consumer.close()
