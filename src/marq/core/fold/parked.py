"""Parked messages, in chunks by due time.

A million may wait for a month while each batch touches a few: only chunks that something is added
to, removed from or due in are looked at. As on a timing wheel, a chunk is the wider the farther
away it is, and what comes nearer is moved to narrower ones: a month is 200 chunks, so messages due
at any time of it are added to few. What is known of chunks without loading them stands in `index`.
Chunks may be kept in a state store that loads one on first touch, and adds to it without loading
it.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from marq.core.markers.marker import (
    FAILED,
    Action,
    Check,
    Failed,
    HalfAnswer,
    HeldParked,
    Parked,
    ParkedRef,
)

CHUNK_MS = 1 << 16
WIDER_BITS = 4
"""A chunk is as wide as 16 of the level below."""
LEVELS = range(3)


class Answers(Struct, frozen=True, gc=False):
    """What was answered of a half message, and did not decide it."""

    unknown: int = 0
    """How many requests nobody knew an answer to; those that nobody heard are not among them."""
    heard: int = 0
    """The last request that was answered."""
    said: tuple[Failed, ...] = ()
    """The last ones: the request's number, when it was answered, and why it is not known."""


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
    half: Answers | None = None
    """Of a half message. Its action says whether it is decided: CHECK means that it is not."""

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
    """What of a chunk is known without loading it."""

    count: int
    first_lapse_ms: int
    """No unmarked entry lapses before; may be too low, never too high."""
    lowest_offset: int
    """No entry lies below; may be too low, never too high."""


NEVER_MS = 1 << 62


class ParkedEntries:
    """The open parked messages of one hold-log partition."""

    __slots__ = ("chunks", "counts", "halves", "index")

    def __init__(self) -> None:
        self.chunks = Chunks()
        self.index: dict[int, ChunkIndex] = {}
        """By chunk."""
        self.counts: dict[str, int] = {}
        """How many there are of each queue."""
        self.halves: dict[str, int] = {}
        """How many of them are half messages: these are in `counts` no more."""

    def __len__(self) -> int:
        return sum(about.count for about in self.index.values())

    def __iter__(self) -> Iterator[ParkedEntry]:
        for bucket in sorted(self.index):
            yield from self.chunks[bucket].values()

    def park(self, offset: int, at_ms: int, parked: Parked, clock_ms: int) -> None:
        """Take in a parked message: the record at this offset is the hold itself."""
        said_ms, due_ms = at_ms + parked.delay_ms, clock_ms + parked.delay_ms
        if not parked.delay_ms:
            said_ms = due_ms = parked.due_ms
        entry = ParkedEntry(
            ParkedRef(said_ms, offset),
            due_ms,
            parked.ahead_ms,
            parked.action,
            queue=parked.queue,
            half=Answers() if parked.action is Action.CHECK else None,
        )
        self._add(entry, clock_ms)

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
        if entry.half is not None and not _may_hold_half(entry, held.action, late):
            return
        self._remove(entry)
        if held.action is not Action.CANCEL:
            self._add(_put_off(entry, held, clock_ms), clock_ms)

    def answer(self, answer: HalfAnswer, clock_ms: int) -> None:
        """Decide half messages, or note that nobody knows.

        Never void for being late: whoever knows that a local transaction has happened knows it for
        good. The first answer that decides counts, and what was given up is decided, too.
        """
        for ref in answer.halves:
            entry = self.get(ref)
            if entry is not None and entry.half is not None and entry.action is Action.CHECK:
                self._answer(entry, entry.half, answer, clock_ms)

    def _answer(
        self, entry: ParkedEntry, before: Answers, answer: HalfAnswer, clock_ms: int
    ) -> None:
        match answer.verdict:
            case Check.ROLLBACK:
                self._remove(entry)
            case Check.COMMIT:
                self._remove(entry)
                decided = replace(
                    entry, due_ms=clock_ms, ahead_ms=0, action=Action.RELEASE, marked=False
                )
                self._add(decided, clock_ms)
            case Check.UNKNOWN if before.heard < answer.number <= entry.tries:
                said = Failed(answer.number, clock_ms, answer.reason)
                told = (*before.said, said)[-FAILED:]
                self._change(entry, half=Answers(before.unknown + 1, answer.number, told))

    def get(self, ref: ParkedRef) -> ParkedEntry | None:
        """The entry kept under exactly this reference."""
        bucket = self._bucket(ref)
        return None if bucket is None else self.chunks[bucket][ref.offset]

    def _bucket(self, ref: ParkedRef) -> int | None:
        """The chunk that has it; None: it is not open."""
        for level in LEVELS:
            bucket = _number(ref, level)
            if bucket in self.index:
                entry = self.chunks[bucket].get(ref.offset)
                if entry is not None and entry.ref == ref:
                    return bucket
        return None

    def _counts(self, entry: ParkedEntry) -> dict[str, int]:
        return self.counts if entry.half is None else self.halves

    def _add(self, entry: ParkedEntry, clock_ms: int) -> None:
        counts = self._counts(entry)
        counts[entry.queue] = counts.get(entry.queue, 0) + 1
        self._put(entry, _level(entry.lapse_ms - clock_ms))

    def _put(self, entry: ParkedEntry, level: int) -> None:
        bucket = _number(entry.ref, level)
        self.chunks.add(bucket, entry)
        about = self.index.get(bucket)
        if about is None:
            self.index[bucket] = ChunkIndex(1, entry.lapse_ms, entry.ref.offset)
        else:
            about.count += 1
            about.first_lapse_ms = min(about.first_lapse_ms, entry.lapse_ms)
            about.lowest_offset = min(about.lowest_offset, entry.ref.offset)

    def _remove(self, entry: ParkedEntry) -> None:
        bucket = self._bucket(entry.ref)
        assert bucket is not None, "it is open"
        counts = self._counts(entry)
        counts[entry.queue] -= 1
        if not counts[entry.queue]:
            del counts[entry.queue]
        chunk = self.chunks[bucket]
        del chunk[entry.ref.offset]
        if chunk:
            self.chunks[bucket] = chunk
            self.index[bucket].count -= 1
        else:
            del self.chunks[bucket], self.index[bucket]

    def overdue(self, clock_ms: int) -> list[ParkedEntry]:
        """What has lapsed and is not marked, oldest first; equal ones in the order sent."""
        for level in reversed(LEVELS[1:]):
            # In time: nothing in it lapses before the narrower ones are looked at.
            for bucket in self._lapsing(level, clock_ms + _width_ms(level)):
                self._move_down(bucket, level)
        found: list[ParkedEntry] = []
        for bucket in self._lapsing(0, clock_ms):
            unmarked = [e for e in self.chunks[bucket].values() if not e.marked]
            found += [e for e in unmarked if e.lapse_ms <= clock_ms]
            first_ms = min((e.lapse_ms for e in unmarked), default=NEVER_MS)
            self.index[bucket].first_lapse_ms = first_ms
        return sorted(found, key=lambda e: (e.lapse_ms, e.ref.offset))

    def _lapsing(self, level: int, by_ms: int) -> list[int]:
        """The chunks of the level in which something may have lapsed by then."""
        return [
            bucket
            for bucket, about in self.index.items()
            if about.first_lapse_ms <= by_ms and bucket % len(LEVELS) == level
        ]

    def _move_down(self, bucket: int, level: int) -> None:
        chunk = self.chunks[bucket]
        del self.chunks[bucket], self.index[bucket]
        for entry in chunk.values():
            self._put(entry, level - 1)

    def mark(self, ref: ParkedRef) -> None:
        """Remember that it was emitted."""
        entry = self.get(ref)
        assert entry is not None, "it was found there a moment ago"
        self._change(entry, marked=True)

    def _change(self, entry: ParkedEntry, **fields: object) -> None:
        """Change what is not where and when it is."""
        bucket = self._bucket(entry.ref)
        assert bucket is not None, "it is open"
        chunk = self.chunks[bucket]
        chunk[entry.ref.offset] = replace(entry, **fields)
        self.chunks[bucket] = chunk  # a store that copies must see the change

    def lowest_offset(self) -> int | None:
        """No open parked message lies below it."""
        return min((about.lowest_offset for about in self.index.values()), default=None)


def _width_ms(level: int) -> int:
    return CHUNK_MS << WIDER_BITS * level


def _level(left_ms: int) -> int:
    """Where a message belongs that lapses in so long."""
    return next((n for n in LEVELS if left_ms < _width_ms(n + 1)), LEVELS[-1])


def _number(ref: ParkedRef, level: int) -> int:
    """The chunk of this level that a message is in, if it is in any; no two have one number."""
    return ref.due_ms // _width_ms(level) * len(LEVELS) + level


def _may_hold_half(entry: ParkedEntry, action: Action, by_tracker: bool) -> bool:
    """Whoever sent it may say that he lives; the tracker asks, or gives up, what nobody has decided
    yet, and puts off what it cannot do now."""
    if action is Action.EXTEND:
        return True
    return by_tracker and entry.action is Action.CHECK and action in (Action.CHECK, Action.BURY)


def _put_off(entry: ParkedEntry, held: HeldParked, clock_ms: int) -> ParkedEntry:
    due_ms = clock_ms + held.after_ms
    if held.action is Action.EXTEND:  # it stays what it is, and is not emitted before
        later_ms = max(due_ms, entry.due_ms)
        ahead_ms = min(entry.ahead_ms, later_ms - due_ms)
        return replace(entry, due_ms=later_ms, ahead_ms=ahead_ms, marked=False)
    return replace(
        entry,
        due_ms=due_ms,
        ahead_ms=held.ahead_ms,
        action=held.action,
        tries=entry.tries + (entry.half is None or held.action is Action.CHECK),
        marked=False,
        reason=held.reason,
    )
