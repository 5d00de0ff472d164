"""The fold of the catalog's log from wherever it begins.

A log that begins at 0 tells all by itself. One that was trimmed begins with changes of things
nobody has heard of: they wait until a snapshot is whole that stands for everything trimmed, then
those it does not stand for are applied. Nothing is in force before: an empty catalog would mean
that every queue was deleted.
"""

from __future__ import annotations

from msgspec import Struct

from marq.core.catalog import definitions
from marq.core.catalog import snapshot as catalog_snapshot
from marq.core.catalog.definitions import Catalog, Entry, NotAnEntry
from marq.core.catalog.snapshot import Parts, Whole


class ReadRecord(Struct, frozen=True):
    """A record that has been read."""

    offset: int
    at_ms: int
    value: bytes | None


class CatalogReader:
    """Reads records in offset order."""

    def __init__(self, start: int) -> None:
        self.next = start
        self._start = start
        self.catalog = Catalog()
        self.is_whole = start == 0
        """Whether the catalog is what the log says."""
        self._waiting: list[tuple[int, Entry]] = []
        self._parts = Parts()
        self.snapshots: tuple[Whole, ...] = ()
        """Those in the log that stand for all before them, oldest first, without their entries."""
        self.entries = 0
        """How many records of the log were entries, since the last snapshot was made."""

    def take(self, record: ReadRecord) -> bool:
        """Read one; True if it is a change that won. `NotAnEntry` if it is no record of ours."""
        if record.offset < self.next:
            return False
        self.next = record.offset + 1
        part = catalog_snapshot.part_of(record.value)
        if part is not None:
            found = self._parts.take(record.offset, record.at_ms, part)
            return found is not None and self._adopt(found)
        entry = definitions.decode(record.value)
        if entry.kind == catalog_snapshot.KIND:
            raise NotAnEntry("a snapshot that cannot be read")
        self.entries += 1
        if self.is_whole:
            return self.catalog.apply(entry)
        self._waiting.append((record.offset, entry))
        return False

    def _adopt(self, found: Whole) -> bool:
        if found.as_of < self._start:
            return False  # what lies between its end and the log's start is missing in it
        self.snapshots = (*self.snapshots, Whole(found.as_of, found.at_ms, ()))
        self.entries = 0
        if not self.is_whole:
            self.catalog = Catalog(found.kept)
            self.is_whole = True
            for offset, entry in self._waiting:
                if offset >= found.as_of:
                    self.catalog.apply(entry)
            self._waiting = []
        return False

    def is_behind(self, start: int) -> bool:
        """Whether the log was trimmed beyond what was read: then all is to be read anew."""
        return self.next < start


def trim_to(snapshots: tuple[Whole, ...], before_ms: int) -> int:
    """Up to where the log may be trimmed: to what the newest snapshot stands for that was written
    before that time.

    Not sooner: a release that knows no snapshots reads the log from 0 on, and cannot start any more
    once it was trimmed.
    """
    return max((each.as_of for each in snapshots if each.at_ms < before_ms), default=0)
