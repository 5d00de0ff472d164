"""The catalog's topic: read to its end, and changed by appending."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from marq.core import catalog, names
from marq.core.catalog import Catalog, Entry
from marq.errors import NotConnected
from marq.kafka.clients import take
from marq.kafka.refusals import patiently, refusal, unreachable

log = logging.getLogger("marq.kafka")

_RECENT_S = 1.0
"""How long a look at a catalog that is known already may take."""


class CatalogLog:
    """Follows the catalog; one reader, one lock."""

    def __init__(
        self, reader: Consumer, producer: Producer, servers: str, timeout_s: float
    ) -> None:
        self._reader = reader
        self._producer = producer
        self._servers = servers
        self._timeout_s = timeout_s
        self._lock = threading.RLock()
        self._next = 0
        self._read_at = 0.0
        self._own, self._own_won = -1, False
        self._catalog = Catalog()

    def recent(self, age_s: float = 1.0) -> Catalog:
        """The catalog as it was at most `age_s` ago."""
        if time.monotonic() - self._read_at > age_s:
            try:
                self.read(_RECENT_S if self._read_at else self._timeout_s)
            except NotConnected:  # what is known goes on while no broker answers
                if not self._read_at:
                    raise
                self._read_at = time.monotonic()
        return self._catalog

    def read(self, timeout_s: float | None = None) -> Catalog:
        """The catalog, read to the log's end now."""
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        with self._lock:
            try:
                self._follow(patiently(lambda: self._end(timeout_s), timeout_s), timeout_s)
            except KafkaException as error:
                raise refusal(error, self._servers) from None
            self._read_at = time.monotonic()
            return self._catalog

    def _end(self, timeout_s: float) -> int:
        place = TopicPartition(names.CATALOG, 0)
        _, end = self._reader.get_watermark_offsets(place, timeout=timeout_s)
        return int(end)

    def append(self, entry: Entry) -> bool:
        """Append a change; True if it is the one that won."""
        with self._lock:
            self._own = self._write(catalog.encode(entry), entry.name)
            self._follow(self._own + 1, self._timeout_s)
            return self._own_won

    def _write(self, value: bytes, key: str) -> int:
        where: list[int] = []
        failed: list[KafkaError] = []

        def report(error: KafkaError | None, message: Any) -> None:
            if error:
                failed.append(error)
            else:
                where.append(message.offset())

        self._producer.produce(names.CATALOG, value, key, partition=0, on_delivery=report)
        self._producer.flush(self._timeout_s)
        if failed:
            raise refusal(KafkaException(failed[0]), self._servers)
        if not where:
            raise unreachable(self._servers)
        return where[0]

    def _follow(self, end: int, timeout_s: float) -> None:
        """Apply the records below `end`."""
        if self._next >= end:
            return
        until = time.monotonic() + timeout_s
        # Assigned only while there is something to read: behind a fetch that waits for more the
        # question where the log ends would wait as well, 50 ms each time.
        self._reader.assign([TopicPartition(names.CATALOG, 0, self._next)])
        try:
            while self._next < end:
                if time.monotonic() > until:
                    raise unreachable(self._servers)
                for message in take(self._reader, 1_000, 0.2):
                    if message.error() is None:
                        self._apply(message)
        finally:
            self._reader.unassign()

    def _apply(self, message: Any) -> None:
        offset = message.offset()
        self._next = offset + 1
        try:
            won = self._catalog.apply(catalog.decode(message.value()))
        except msgspec.MsgspecError:
            log.warning("not a catalog entry", extra={"offset": offset})
            return
        if offset == self._own:
            self._own_won = won
