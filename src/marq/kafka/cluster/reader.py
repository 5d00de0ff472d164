"""Reads topics by offset, outside any group.

Only the end of a partition is an end. A log that was trimmed past the place where reading was to
begin is read from where it starts now, and whatever else keeps records from being read is an error:
a look that found nothing because it could not look says that nothing is there.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from heapq import merge
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from marq.core.fold import hold_log
from marq.core.fold.fold import Record, fold
from marq.core.fold.state import State
from marq.errors import UnknownMarkerVersion
from marq.kafka.client import codes, doors
from marq.kafka.client.config import Config
from marq.kafka.client.making import Consumer, take
from marq.kafka.client.record import headers
from marq.kafka.client.refusals import refusal, unreachable
from marq.kafka.cluster.admin import Admin

Span = tuple[int, int]
"""The first offset, and the one after the last."""

_REFUSED_S = 2.0
"""Who hears nothing for so long, and is not let in, waits no longer."""
_FOUND_S = 2.0
"""How long a topic is looked for before it is read: a shut door is told in reading."""


_AS_TAKEN: Config = {
    "max.partition.fetch.bytes": 262_144,
    "queued.min.messages": 1,
    "fetch.wait.max.ms": 5,
}


class LogReader:
    """Sequential reads of whole stretches of partitions."""

    def __init__(self, settings: Config, admin: Admin, timeout_s: float) -> None:
        self._settings = settings
        self._admin = admin
        self._timeout_s = timeout_s

    def read(
        self, topic: str, spans: dict[int, Span], trimmed: Callable[[int], Span] | None = None
    ) -> Iterator[Any]:
        """The records that are there, by partition from the first offset below the second, in one
        sequential pass.

        `trimmed` is asked where to go on in a partition that no longer has the offset read next;
        else it is where the log starts now.
        """
        if not any(start < end for start, end in spans.values()):
            return
        yield from self._passed(self._settings, topic, spans, trimmed)

    def in_time(self, topic: str, spans: dict[int, Span]) -> Iterator[Any]:
        """The records that are there, those of all partitions in the order they were appended.

        Fetched as they are taken: whoever stops early has read little.
        """
        few = {**self._settings, **_AS_TAKEN}
        parts = (
            self._passed(few, topic, {number: (start, end)}, None)
            for number, (start, end) in spans.items()
            if start < end
        )
        return merge(*parts, key=lambda message: (message.timestamp()[1], message.offset()))

    def _passed(
        self,
        settings: Config,
        topic: str,
        spans: dict[int, Span],
        trimmed: Callable[[int], Span] | None,
    ) -> Iterator[Any]:
        left = {number: end for number, (start, end) in spans.items() if start < end}
        consumer = Consumer({**settings, "enable.partition.eof": True})
        try:
            with contextlib.suppress(KafkaException):  # away: the read will tell
                # One that is told to read what it does not know takes a second to find it.
                consumer.list_topics(topic, timeout=min(_FOUND_S, self._timeout_s))
            one = _Pass(consumer, topic, left, self._settings["bootstrap.servers"])
            one.trimmed = trimmed or (lambda number: (self._start(topic, number), left[number]))
            consumer.incremental_assign(
                [TopicPartition(topic, number, spans[number][0]) for number in left]
            )
            yield from one.run(self._timeout_s)
        finally:
            consumer.close()

    def folded(self, topic: str, partitions: int) -> list[State]:
        """The fold of every partition of a hold log, from its start to its end now."""
        return self._folded(topic, range(partitions))

    def folded_one(self, topic: str, partition: int) -> State:
        """The fold of one partition of a hold log."""
        return self._folded(topic, [partition])[0]

    def _folded(self, topic: str, numbers: range | list[int]) -> list[State]:
        states: dict[int, State] = {}

        def from_start(number: int) -> Span:
            # Anew, and as far as the log goes by then: what a trimmed log has lost is said again
            # by a restatement behind where it ended before.
            states[number] = State()
            return self._start(topic, number), self._admin.end(topic, number)

        starts = self._admin.starts(topic, 1 + max(numbers))
        ends = self._admin.ends(topic, 1 + max(numbers))
        states |= {number: State() for number in numbers}
        spans = {number: (starts[number], ends[number]) for number in numbers}
        for message in self.read(topic, spans, from_start):
            fold(states[message.partition()], (hold_record(message),))
        return [states[number] for number in numbers]

    def _start(self, topic: str, partition: int) -> int:
        return self._admin.starts(topic, 1 + partition)[partition]


class _Pass:
    """One sequential pass over stretches of a topic's partitions."""

    def __init__(self, consumer: Consumer, topic: str, left: dict[int, int], servers: str) -> None:
        self._consumer = consumer
        self._topic = topic
        self._left = left
        """Where reading ends, by partition that has not come so far."""
        self._servers = servers
        self.trimmed: Callable[[int], Span]

    def run(self, patience_s: float) -> Iterator[Any]:
        quiet_until = time.monotonic() + patience_s
        door = doors.of(self._servers)
        while self._left:
            for message in take(self._consumer, 10_000, 0.2):
                if message.error() is not None:
                    self._stopped(message.partition(), message.error())
                    continue
                if self._is_wanted(message):
                    yield message
                # From when it goes on: whoever takes the records may take their time.
                quiet_until = time.monotonic() + patience_s
            left_s = quiet_until - time.monotonic()
            if left_s < 0 or (left_s < patience_s - _REFUSED_S and door.shut()):
                raise unreachable(self._servers)

    def _is_wanted(self, message: Any) -> bool:
        number, offset = message.partition(), message.offset()
        end = self._left.get(number, 0)
        if offset >= end - 1:
            self._left.pop(number, None)
        return bool(offset < end)

    def _stopped(self, number: int, error: KafkaError) -> None:
        """The consumer has no record but this to say."""
        if codes.is_end(error):
            self._left.pop(number, None)
        elif codes.is_off_the_log(error):
            self._go_on(number)
        elif not codes.is_passing(error):
            needed = f"READ on topic {self._topic!r}"
            raise refusal(KafkaException(error), self._servers, needed)

    def _go_on(self, number: int) -> None:
        start, self._left[number] = self.trimmed(number)
        place = TopicPartition(self._topic, number, start)
        # Not by seek: librdkafka has stopped fetching it.
        self._consumer.incremental_unassign([place])
        if start < self._left[number]:
            self._consumer.incremental_assign([place])
        else:
            del self._left[number]


def hold_record(
    message: Any, newer: Callable[[UnknownMarkerVersion], None] = hold_log.refuse
) -> Record:
    """A record of a hold log as the fold takes it; `newer` is called with an unknown one."""
    place = (message.topic(), message.partition(), message.offset())
    said = hold_log.said_of_parked(headers(message))
    return hold_log.record(place, message.timestamp()[1], message.value(), said, newer)
