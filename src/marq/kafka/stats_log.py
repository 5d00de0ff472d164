"""The stats topic: counts of every queue, written by the tracker and followed by clients."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import asdict

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition

from marq.core import names
from marq.kafka.clients import take, warm_producer
from marq.kafka.config import Config
from marq.message import Stats

_ALIVE = ""
"""The key of the tracker's sign of life."""


class _Sign(msgspec.Struct):
    at_ms: int


class StatsWriter:
    """Writes the counts that have changed, and a sign of life each time."""

    def __init__(self, settings: Config) -> None:
        self._producer = warm_producer({**settings, "message.timeout.ms": 5_000})
        self._written: dict[str, Stats] = {}

    def write(self, stats: Mapping[str, Stats], at_ms: int) -> None:
        for queue, counts in stats.items():
            if self._written.get(queue) != counts:
                self._put(queue, msgspec.json.encode(asdict(counts)))
        for queue in self._written.keys() - stats.keys():
            self._put(queue, None)
        self._put(_ALIVE, msgspec.json.encode(_Sign(at_ms)))
        self._written = dict(stats)
        self._producer.poll(0)

    def _put(self, key: str, value: bytes | None) -> None:
        try:
            self._producer.produce(names.STATS, value, key.encode(), partition=0)
        except (BufferError, KafkaException):
            self._written.pop(key, None)  # the broker is away: the next round writes it again


class StatsReader:
    """Follows the topic; one reader, one lock."""

    def __init__(self, settings: Config, timeout_s: float) -> None:
        self._settings = settings
        self._timeout_s = timeout_s
        self._consumer: Consumer | None = None
        self._lock = threading.Lock()
        self._counts: dict[str, Stats] = {}
        self.alive_ms = 0
        """When the tracker last gave a sign of life; 0: never."""

    def read(self, queue: str) -> Stats | None:
        """The queue's counts as the tracker last wrote them; None if it never did."""
        with self._lock:
            self._follow()
            return self._counts.get(queue)

    def _follow(self) -> None:
        until = time.monotonic() + self._timeout_s
        if self._consumer is None:
            self._consumer = Consumer({**self._settings, "enable.partition.eof": True})
            self._consumer.assign([TopicPartition(names.STATS, 0, 0)])
            while not self._take(0.1) and time.monotonic() < until:
                pass  # from the start to the end, once
        while self._take(0.0) is None:
            pass

    def _take(self, wait_s: float) -> bool | None:
        """Apply what has come; True at the end of the log, None if there may be more at once."""
        assert self._consumer is not None
        batch = take(self._consumer, 1_000, wait_s)
        for message in batch:
            if message.error() is None:
                self._apply((message.key() or b"").decode(), message.value())
        if any(message.error() is not None for message in batch):
            return True
        return None if batch else False

    def _apply(self, key: str, value: bytes | None) -> None:
        if value is None:
            self._counts.pop(key, None)
        elif key == _ALIVE:
            self.alive_ms = msgspec.json.decode(value, type=_Sign).at_ms
        else:
            self._counts[key] = msgspec.json.decode(value, type=Stats)

    def close(self) -> None:
        with self._lock:
            if self._consumer is not None:
                self._consumer.close()
                self._consumer = None
