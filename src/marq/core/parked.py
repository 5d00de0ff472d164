"""Parked messages, in chunks by due time.

A million may wait for days while each batch touches a few: only chunks that something is added to,
removed from or due in are looked at. `chunks` is any mutable mapping, so that a state store can
load one on first touch; what must be known of all chunks at once stands in `index`.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

from msgspec import Struct
from msgspec.structs import replace

from marq.core.marker import Action, HeldParked, Parked, ParkedRef

CHUNK_MS = 1 << 16


class ParkedEntry(Struct, gc=False):
    """One message that waits."""

    ref: ParkedRef
    due_ms: int
    """By the log's clock, and after it was put off; the reference keeps what the record says."""
    ahead_ms: int
    action: Action
    tries: int = 0
    """How often it was held again: a half message's checks so far."""
    marked: bool = False
    reason: str = ""
    queue: str = ""

    @property
    def lapse_ms(self) -> int:
        return self.due_ms - self.ahead_ms


Chunk = dict[int, ParkedEntry]
"""By offset."""


class ChunkIndex(Struct, gc=False):
    """What of a chunk is known without loading it."""

    count: int
    first_lapse_ms: int
    """No unmarked entry lapses before; may be too low, never too high."""
    lowest_offset: int
    """No entry lies below; may be too low, never too high."""


NEVER_MS = 1 << 62


class ParkedEntries:
    """The open parked messages of one hold-log partition."""

    __slots__ = ("chunks", "counts", "index")

    def __init__(self, chunks: MutableMapping[int, Chunk] | None = None) -> None:
        self.chunks: MutableMapping[int, Chunk] = {} if chunks is None else chunks
        self.index: dict[int, ChunkIndex] = {}
        self.counts: dict[str, int] = {}
        """How many there are of each queue."""

    def __len__(self) -> int:
        return sum(chunk.count for chunk in self.index.values())

    def __iter__(self) -> Iterator[ParkedEntry]:
        for bucket in sorted(self.index):
            yield from self.chunks[bucket].values()

    def park(self, offset: int, at_ms: int, parked: Parked, clock_ms: int) -> None:
        """Take in a parked message: the record at this offset is the hold itself."""
        said_ms, due_ms = at_ms + parked.delay_ms, clock_ms + parked.delay_ms
        if not parked.delay_ms:
            said_ms = due_ms = parked.due_ms
        ref = ParkedRef(said_ms, offset)
        self._add(
            ParkedEntry(ref, due_ms, parked.ahead_ms, parked.action, queue=parked.queue),
        )

    def end(self, ref: ParkedRef) -> None:
        """It was released, checked or given up."""
        entry = self.get(ref)
        if entry is not None:
            self._remove(entry)

    def hold(self, held: HeldParked, clock_ms: int, late: bool) -> None:
        """Put it off or cancel it; void once it has lapsed, unless `late` (the tracker's)."""
        entry = self.get(held.ref)
        if entry is None or (entry.lapse_ms <= clock_ms and not late):
            return  # a cancel that came late: the message may be on its way
        self._remove(entry)
        if held.action is not Action.CANCEL:
            self._add(_put_off(entry, held, clock_ms))

    def _add(self, entry: ParkedEntry) -> None:
        bucket = entry.ref.due_ms // CHUNK_MS
        about = self.index.get(bucket) or ChunkIndex(0, NEVER_MS, NEVER_MS)
        chunk = self.chunks[bucket] if about.count else {}
        chunk[entry.ref.offset] = entry
        self.counts[entry.queue] = self.counts.get(entry.queue, 0) + 1
        self.chunks[bucket] = chunk
        self.index[bucket] = ChunkIndex(
            len(chunk),
            min(about.first_lapse_ms, entry.lapse_ms),
            min(about.lowest_offset, entry.ref.offset),
        )

    def get(self, ref: ParkedRef) -> ParkedEntry | None:
        """The entry kept under exactly this reference."""
        bucket = ref.due_ms // CHUNK_MS
        entry = self.chunks[bucket].get(ref.offset) if bucket in self.index else None
        return entry if entry is not None and entry.ref == ref else None

    def _remove(self, entry: ParkedEntry) -> None:
        bucket = entry.ref.due_ms // CHUNK_MS
        chunk = self.chunks[bucket]
        del chunk[entry.ref.offset]
        self.counts[entry.queue] -= 1
        if not self.counts[entry.queue]:
            del self.counts[entry.queue]
        if chunk:
            self.chunks[bucket] = chunk
            self.index[bucket].count = len(chunk)
        else:
            del self.chunks[bucket], self.index[bucket]

    def overdue(self, clock_ms: int) -> list[ParkedEntry]:
        """What has lapsed and is not marked, oldest first; equal ones in the order sent."""
        found: list[ParkedEntry] = []
        for bucket, about in self.index.items():
            if about.first_lapse_ms <= clock_ms:
                unmarked = [e for e in self.chunks[bucket].values() if not e.marked]
                found += [e for e in unmarked if e.lapse_ms <= clock_ms]
                about.first_lapse_ms = min((e.lapse_ms for e in unmarked), default=NEVER_MS)
        return sorted(found, key=lambda e: (e.lapse_ms, e.ref.offset))

    def mark(self, entry: ParkedEntry) -> None:
        """Remember that it was emitted."""
        bucket = entry.ref.due_ms // CHUNK_MS
        entry.marked = True
        self.chunks[bucket] = self.chunks[bucket]  # a store that copies must see the change

    def lowest_offset(self) -> int | None:
        """No open parked message lies below it."""
        return min((about.lowest_offset for about in self.index.values()), default=None)


def _put_off(entry: ParkedEntry, held: HeldParked, clock_ms: int) -> ParkedEntry:
    due_ms = clock_ms + held.after_ms
    if held.action is Action.EXTEND:  # it stays what it is
        return replace(entry, due_ms=max(due_ms, entry.due_ms), marked=False)
    return replace(
        entry,
        due_ms=due_ms,
        ahead_ms=held.ahead_ms,
        action=held.action,
        tries=entry.tries + 1,
        marked=False,
        reason=held.reason,
    )
