"""Reads topics by offset, outside any group."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from marq.core import codec
from marq.core.fold import Record, fold
from marq.core.state import State
from marq.errors import MalformedMarker, NotAMarker
from marq.kafka.admin import Admin, unreachable
from marq.kafka.clients import take
from marq.kafka.config import Config


class Reader:
    """Sequential reads of whole stretches of partitions."""

    def __init__(self, settings: Config, admin: Admin, timeout_s: float) -> None:
        self._settings = settings
        self._admin = admin
        self._timeout_s = timeout_s

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Any]:
        """The records from `start` below `end` that are there."""
        if start >= end:
            return
        consumer = Consumer({**self._settings, "enable.partition.eof": True})
        try:
            consumer.assign([TopicPartition(topic, partition, start)])
            yield from self._until(consumer, end)
        finally:
            consumer.close()

    def _until(self, consumer: Consumer, end: int) -> Iterator[Any]:
        quiet_until = time.monotonic() + self._timeout_s
        while True:
            for message in take(consumer, 10_000, 0.2):
                if message.error() is not None:
                    return  # the end of what can be read
                if message.offset() >= end:
                    return
                quiet_until = time.monotonic() + self._timeout_s
                yield message
                if message.offset() == end - 1:
                    return
            if time.monotonic() > quiet_until:
                raise unreachable(self._settings["bootstrap.servers"])

    def folded(self, topic: str, partitions: int) -> list[State]:
        """The fold of every partition of a hold log, from its start to its end now."""
        starts = self._admin.starts(topic, partitions)
        ends = self._admin.ends(topic, partitions)
        return [
            fold(State(), (_record(m) for m in self.read(topic, number, starts[number], end)))
            for number, end in enumerate(ends)
        ]


def _record(message: Any) -> Record:
    try:
        body = codec.decode(message.value() or b"")
    except (NotAMarker, MalformedMarker):
        body = None
    return Record(message.offset(), message.timestamp()[1], body)
