"""Reads topics by offset, outside any group."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from marq.core import hold_log
from marq.core.fold import Record, fold
from marq.core.state import State
from marq.kafka.admin import Admin
from marq.kafka.clients import take
from marq.kafka.config import Config
from marq.kafka.refusals import unreachable


class Reader:
    """Sequential reads of whole stretches of partitions."""

    def __init__(self, settings: Config, admin: Admin, timeout_s: float) -> None:
        self._settings = settings
        self._admin = admin
        self._timeout_s = timeout_s

    def read(self, topic: str, spans: dict[int, tuple[int, int]]) -> Iterator[Any]:
        """The records that are there, by partition from the first offset below the second, in one
        sequential pass."""
        left = {number: end for number, (start, end) in spans.items() if start < end}
        if not left:
            return
        places = [TopicPartition(topic, number, spans[number][0]) for number in left]
        consumer = Consumer({**self._settings, "enable.partition.eof": True})
        try:
            consumer.assign(places)
            yield from self._until(consumer, left)
        finally:
            consumer.close()

    def _until(self, consumer: Consumer, left: dict[int, int]) -> Iterator[Any]:
        quiet_until = time.monotonic() + self._timeout_s
        while left:
            batch = take(consumer, 10_000, 0.2)
            for message in batch:
                number = message.partition()
                if message.error() is not None:  # the end of what can be read there
                    left.pop(number, None)
                elif number in left and message.offset() < left[number]:
                    yield message
                    if message.offset() == left[number] - 1:
                        del left[number]
                else:
                    left.pop(number, None)
            if batch:
                quiet_until = time.monotonic() + self._timeout_s
            elif time.monotonic() > quiet_until:
                raise unreachable(self._settings["bootstrap.servers"])

    def folded(self, topic: str, partitions: int) -> list[State]:
        """The fold of every partition of a hold log, from its start to its end now."""
        starts = self._admin.starts(topic, partitions)
        ends = self._admin.ends(topic, partitions)
        states = [State() for _ in range(partitions)]
        spans = {number: (starts[number], ends[number]) for number in range(partitions)}
        for message in self.read(topic, spans):
            fold(states[message.partition()], (hold_record(message),))
        return states

    def folded_one(self, topic: str, partition: int) -> State:
        """The fold of one partition of a hold log."""
        start = self._admin.starts(topic, partition + 1)[partition]
        end = self._admin.end(topic, partition)
        records = (hold_record(message) for message in self.read(topic, {partition: (start, end)}))
        return fold(State(), records)


def hold_record(message: Any) -> Record:
    """A record of a hold log as the fold takes it."""
    headers = message.headers()
    first = (headers[0][1] or b"") if headers else None
    body = hold_log.body(message.topic(), message.value(), first)
    return Record(message.offset(), message.timestamp()[1], body)
