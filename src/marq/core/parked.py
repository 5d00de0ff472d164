"""Parked messages, in chunks by due time.

A million may wait for a month while each batch touches a few: only chunks that something is added
to, removed from or due in are looked at. What is known of chunks without loading them stands in
pages, and what must be known of all pages at once in `index`: a month is 40,000 chunks, but 160
pages. Both may be kept in a state store that loads one on first touch, and adds to a chunk without
loading it.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterator, MutableMapping

from msgspec import Struct
from msgspec.structs import replace

from marq.core.marker import Action, HeldParked, Parked, ParkedRef

CHUNK_MS = 1 << 16
PAGE = 1 << 8
"""Chunks of a page."""


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


class Chunks(UserDict[int, Chunk]):
    """Chunks by due time."""

    def add(self, bucket: int, entry: ParkedEntry) -> None:
        """Put one more into a chunk, new or not: what is in it need not be known."""
        self.data.setdefault(bucket, {})[entry.ref.offset] = entry


class ChunkIndex(Struct, gc=False):
    """What of a chunk, or of all chunks of a page, is known without loading it."""

    count: int
    first_lapse_ms: int
    """No unmarked entry lapses before; may be too low, never too high."""
    lowest_offset: int
    """No entry lies below; may be too low, never too high."""


Page = dict[int, ChunkIndex]
"""By chunk."""
NEVER_MS = 1 << 62


class ParkedEntries:
    """The open parked messages of one hold-log partition."""

    __slots__ = ("chunks", "counts", "index", "pages")

    def __init__(self) -> None:
        self.chunks = Chunks()
        self.pages: MutableMapping[int, Page] = {}
        self.index: dict[int, ChunkIndex] = {}
        """By page."""
        self.counts: dict[str, int] = {}
        """How many there are of each queue."""

    def __len__(self) -> int:
        return sum(page.count for page in self.index.values())

    def __iter__(self) -> Iterator[ParkedEntry]:
        for number in sorted(self.index):
            for bucket in sorted(self.pages[number]):
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
        bucket = _bucket(entry.ref)
        page = self._page(bucket)
        self.chunks.add(bucket, entry)
        self.counts[entry.queue] = self.counts.get(entry.queue, 0) + 1
        page[bucket] = _with(page.get(bucket), entry)
        self.pages[bucket // PAGE] = page
        self.index[bucket // PAGE] = _with(self.index.get(bucket // PAGE), entry)

    def _page(self, bucket: int) -> Page:
        return self.pages[bucket // PAGE] if bucket // PAGE in self.index else {}

    def get(self, ref: ParkedRef) -> ParkedEntry | None:
        """The entry kept under exactly this reference."""
        bucket = _bucket(ref)
        entry = self.chunks[bucket].get(ref.offset) if bucket in self._page(bucket) else None
        return entry if entry is not None and entry.ref == ref else None

    def _remove(self, entry: ParkedEntry) -> None:
        bucket = _bucket(entry.ref)
        number, page, chunk = bucket // PAGE, self._page(bucket), self.chunks[bucket]
        del chunk[entry.ref.offset]
        self.counts[entry.queue] -= 1
        if not self.counts[entry.queue]:
            del self.counts[entry.queue]
        if chunk:
            self.chunks[bucket] = chunk
            page[bucket].count -= 1
            self.index[number].count -= 1
        else:
            del self.chunks[bucket], page[bucket]
            # Reckoned anew, or the log would be kept for what has long been released.
            self._sum_up(number, page)
        if page:
            self.pages[number] = page
        else:
            del self.pages[number], self.index[number]

    def _sum_up(self, number: int, page: Page) -> None:
        self.index[number] = ChunkIndex(
            sum(about.count for about in page.values()),
            min((about.first_lapse_ms for about in page.values()), default=NEVER_MS),
            min((about.lowest_offset for about in page.values()), default=NEVER_MS),
        )

    def overdue(self, clock_ms: int) -> list[ParkedEntry]:
        """What has lapsed and is not marked, oldest first; equal ones in the order sent."""
        found: list[ParkedEntry] = []
        for number in [n for n, about in self.index.items() if about.first_lapse_ms <= clock_ms]:
            page = self.pages[number]
            for bucket, about in page.items():
                if about.first_lapse_ms <= clock_ms:
                    unmarked = [e for e in self.chunks[bucket].values() if not e.marked]
                    found += [e for e in unmarked if e.lapse_ms <= clock_ms]
                    about.first_lapse_ms = min((e.lapse_ms for e in unmarked), default=NEVER_MS)
            self.pages[number] = page
            self._sum_up(number, page)
        return sorted(found, key=lambda e: (e.lapse_ms, e.ref.offset))

    def mark(self, entry: ParkedEntry) -> None:
        """Remember that it was emitted."""
        bucket = _bucket(entry.ref)
        entry.marked = True
        self.chunks[bucket] = self.chunks[bucket]  # a store that copies must see the change

    def lowest_offset(self) -> int | None:
        """No open parked message lies below it."""
        return min((about.lowest_offset for about in self.index.values()), default=None)


def _bucket(ref: ParkedRef) -> int:
    return ref.due_ms // CHUNK_MS


def _with(about: ChunkIndex | None, entry: ParkedEntry) -> ChunkIndex:
    about = about or ChunkIndex(0, NEVER_MS, NEVER_MS)
    return ChunkIndex(
        about.count + 1,
        min(about.first_lapse_ms, entry.lapse_ms),
        min(about.lowest_offset, entry.ref.offset),
    )


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
