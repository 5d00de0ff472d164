"""The catalog's topic: read to its end, and changed by appending."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from marq.core.catalog import snapshot as catalog_snapshot
from marq.core.catalog.definitions import Catalog, Entry, NotAnEntry, encode
from marq.core.catalog.reader import CatalogReader, ReadRecord
from marq.core.catalog.snapshot import Whole
from marq.errors import ConfigError, NotConnected, QueueError
from marq.kafka.client import codes
from marq.kafka.client.making import Consumer, Producer, take
from marq.kafka.client.refusals import patiently, refusal, unreachable

log = logging.getLogger("marq.kafka")

_RECENT_S = 1.0
"""How long a look at a catalog that is known already may take."""


class _Behind(Exception):
    """The log was trimmed beyond where it is being read."""


class CatalogLog:
    """Follows the catalog; one reader, one lock."""

    def __init__(
        self,
        reader: Consumer,
        make_producer: Callable[[], Producer],
        servers: str,
        topic: str,
        timeout_s: float,
    ) -> None:
        self.topic = topic
        self._reader = reader
        self._make_producer = make_producer
        self._servers = servers
        self._timeout_s = timeout_s
        self._lock = threading.RLock()
        self._read_at = 0.0
        self._own, self._own_won = -1, False
        self.start = 0
        """Where the log began when it was read last."""
        self._known: CatalogReader | None = None
        """What was read so far; what is in force is whole."""

    def recent(self, age_s: float = 1.0) -> Catalog:
        """The catalog as it was at most `age_s` ago."""
        if time.monotonic() - self._read_at > age_s:
            try:
                self.read(_RECENT_S if self._read_at else self._timeout_s)
            except NotConnected:  # what is known goes on while no broker answers
                if not self._read_at:
                    raise
                self._read_at = time.monotonic()
        assert self._known is not None
        return self._known.catalog

    def read(self, timeout_s: float | None = None) -> Catalog:
        """The catalog, read to the log's end now."""
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        until = time.monotonic() + timeout_s
        with self._lock:
            while True:
                try:
                    start, end = patiently(lambda: self._span(timeout_s), timeout_s)
                    self._known = self._followed(start, end, until)
                    break
                except KafkaException as error:
                    raise self._refusal(error, "READ") from None
                except _Behind:  # trimmed between the look and the read
                    if time.monotonic() > until:
                        raise unreachable(self._servers) from None
            self._read_at = time.monotonic()
            return self._known.catalog

    def _span(self, timeout_s: float) -> tuple[int, int]:
        place = TopicPartition(self.topic, 0)
        start, end = self._reader.get_watermark_offsets(place, timeout=timeout_s)
        return int(start), int(end)

    def _followed(self, start: int, end: int, until: float) -> CatalogReader:
        """What the log says up to `end`; what was known stays in force until this is whole."""
        known, self.start = self._known, start
        if known is None or known.is_behind(start):
            known = CatalogReader(start)
        self._follow(known, end, until)
        if not known.is_whole:
            raise QueueError(
                f"{self.topic} begins at offset {start}, and no snapshot in it stands for what "
                f"came before: what queues there are is not known. Was it emptied by hand?"
            )
        return known

    # Changing.

    @cached_property
    def _producer(self) -> Producer:
        """Made with the first change: most processes only read."""
        return self._make_producer()

    def append(self, entry: Entry) -> bool:
        """Append a change; True if it is the one that won."""
        with self._lock:
            value = entry.value or encode(entry)
            self._own_won = False
            self._own = self._write(value, entry.name)
            try:
                assert self._known is not None
                self._follow(self._known, self._own + 1, time.monotonic() + self._timeout_s)
            except _Behind:  # a snapshot stands for it already
                found = self.read().record(entry.kind, entry.name)
                return found is not None and found.value == value
            return self._own_won

    def append_all(self, entries: Iterable[Entry]) -> None:
        """Append changes, and read on to them: which of them won, the catalog tells."""
        with self._lock:
            ends = self._write_all([(each.value or encode(each), each.name) for each in entries])
            try:
                assert self._known is not None
                self._follow(self._known, max(ends) + 1, time.monotonic() + self._timeout_s)
            except _Behind:  # a snapshot stands for them already
                self.read()

    def _write(self, value: bytes, key: str) -> int:
        return self._write_all([(value, key)])[0]

    def _write_all(self, records: list[tuple[bytes, str]]) -> list[int]:
        where: list[int] = []
        failed: list[KafkaError] = []

        def report(error: KafkaError | None, message: Any) -> None:
            if error:
                failed.append(error)
            else:
                where.append(message.offset())

        try:
            for value, key in records:
                self._producer.produce(self.topic, value, key, partition=0, on_delivery=report)
        except KafkaException as error:
            raise self._refusal(error, "WRITE") from None
        self._producer.flush(self._timeout_s)
        if failed:
            raise self._refusal(KafkaException(failed[0]), "WRITE")
        if len(where) < len(records):
            raise unreachable(self._servers)
        return where

    def _refusal(self, error: KafkaException, operation: str) -> ConfigError | NotConnected:
        return refusal(error, self._servers, f"{operation} on topic {self.topic!r}")

    # Snapshots.

    def since_snapshot(self) -> tuple[int, int]:
        """How many changes were made since the last snapshot, and how many entries one would
        have."""
        known = self._known
        return (known.entries, len(known.catalog.kept())) if known else (0, 0)

    def snapshots(self) -> tuple[Whole, ...]:
        """The snapshots in the log."""
        return self._known.snapshots if self._known else ()

    def write_snapshot(self, owner: str) -> None:
        """Write down what is in force. Whoever else does it meanwhile does no harm: each says what
        it stands for."""
        with self._lock:
            kept, as_of = self.read().kept(), self._next()
            for value in catalog_snapshot.split(kept, as_of, f"{owner}:{as_of}"):
                self._write(value, catalog_snapshot.KIND)
            self.read()
        log.info("wrote a snapshot of the catalog", extra={"as_of": as_of, "entries": len(kept)})

    def _next(self) -> int:
        assert self._known is not None
        return self._known.next

    # Reading.

    def _follow(self, known: CatalogReader, end: int, until: float) -> None:
        """Read the records below `end`."""
        if known.next >= end:
            return
        # Assigned only while there is something to read: behind a fetch that waits for more the
        # question where the log ends would wait as well, 50 ms each time.
        self._reader.assign([TopicPartition(self.topic, 0, known.next)])
        try:
            while known.next < end:
                if time.monotonic() > until:
                    raise unreachable(self._servers)
                for message in take(self._reader, 1_000, 0.2):
                    self._take(known, message)
        finally:
            self._reader.unassign()

    def _take(self, known: CatalogReader, message: Any) -> None:
        error = message.error()
        if error is None:
            self._apply(known, message)
        elif codes.is_off_the_log(error):
            raise _Behind
        elif codes.is_unreadable(error):
            raise self._refusal(KafkaException(error), "READ")

    def _apply(self, known: CatalogReader, message: Any) -> None:
        offset = message.offset()
        try:
            won = known.take(ReadRecord(offset, message.timestamp()[1], message.value()))
        except NotAnEntry as error:
            log.warning("not a catalog entry", extra={"offset": offset, "error": str(error)})
            return
        if offset == self._own:
            self._own_won = won

    def close(self) -> None:
        with self._lock:
            self._reader.close()
