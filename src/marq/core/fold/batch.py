"""What a batch of a hold-log partition comes to, as one value: what act and the counts need of it.

The fold hands it to act as bytes, so that a batch of a partition is one row, whatever happened.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from marq.core.fold import overdue, restate
from marq.core.fold.counting import SourceCount, source_counts
from marq.core.fold.overdue import Due, Event, Overdue
from marq.core.fold.state import State
from marq.core.markers import codec
from marq.core.markers.marker import Restate

TRIM_EVERY_MS = 30_000
"""How often the log is written down again and trimmed."""
SOURCES_A_TRIM = 1_000
"""Of more sources it is written down less often: that costs what there are, and a log that is
trimmed some minutes later is only that much longer."""


class Clocks(Struct, frozen=True, array_like=True):
    """The clocks of a fold."""

    clock_ms: int
    lease_clock_ms: int
    grace_ms: int


class Batch(Struct, frozen=True, array_like=True):
    """What a batch of records of one hold-log partition added up to."""

    start: int
    """The offset folding went on from: below it nothing is read again."""
    end: int
    clocks: Clocks
    overdue: list[Overdue] = []
    due: list[Due] = []
    restate: bytes = b""
    """What to append before trimming, as a marker; empty: no trimming this time."""
    trim_to: int = 0
    """The log below is no longer needed, once this is appended."""
    sources: list[SourceCount] = []
    """Those at work, or all; what was told of others before still holds."""
    delayed: dict[str, int] = {}
    """Parked messages by queue."""
    halves: dict[str, int] = {}
    """Half messages by queue."""
    claims: int = 0
    skipped: int = 0
    next_lapse_ms: int = 0
    """When something open lapses next, if nothing else happens; 0: nothing is left to."""
    has_all: bool = True
    """Whether these are all sources there are."""
    forgotten: list[tuple[bytes, int, str]] = []
    """Sources that are known no more, by topic id, partition and subscription."""

    def restatement(self) -> Restate:
        """What to append before trimming, all of it: more than one record of a log may say."""
        found = codec.decode(self.restate, most_named=1 << 62)
        assert isinstance(found, Restate)
        return found

    def events(self) -> list[Event]:
        """All that is to be acted on, oldest first."""
        return sorted((*self.overdue, *self.due), key=lambda event: event.lapse_ms)


def conclude(
    state: State, start: int, caught_up: bool, *, turn: int = 0, told_to: int = 0
) -> Batch:
    """The batch that this state is the end of; emits, so the state is marked.

    While the log is being caught up with, nothing is emitted, restated or trimmed: an entry's end
    may stand further down. `turn` keeps partitions from being trimmed all at once; who is
    `told_to` is told of all sources once, and then of those at work.
    """
    events = overdue.emit(state) if caught_up else []
    every_ms = TRIM_EVERY_MS * (1 + len(state.claimed) // SOURCES_A_TRIM)
    due_ms = state.restated_ms + every_ms + 1_000 * turn
    trims = caught_up and state.clock_ms >= due_ms
    has_all = state.told_to != told_to or not state.claimed.number_aside
    found = Batch(
        start=start,
        end=state.next_offset,
        clocks=Clocks(state.clock_ms, state.lease_clock_ms, state.grace_ms),
        overdue=[event for event in events if isinstance(event, Overdue)],
        due=[event for event in events if isinstance(event, Due)],
        restate=codec.encode(restate.restatement(state)) if trims else b"",
        trim_to=min(start, restate.needed_from(state)) if trims else 0,
        sources=source_counts(state, state.claimed if has_all else state.claimed.near),
        delayed=state.parked.counts,
        halves=state.parked.halves,
        claims=len(state.claims),
        skipped=state.skipped,
        next_lapse_ms=overdue.next_lapse_ms(state) or 0,
        has_all=has_all,
        forgotten=[(s[0], s[1], s[3]) for s in state.forgotten if s not in state.claimed],
    )
    state.told_to, state.forgotten = told_to, []
    state.put_idle_aside()
    return found


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Batch).decode
