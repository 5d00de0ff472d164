"""What of a hold log is still needed, and what must be written before the rest is trimmed."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from marq.core import claimed
from marq.core.marker import EndedRuns, Restate, Restated, Source
from marq.core.runs import Runs
from marq.core.state import OpenClaim, State

RESTATE_AFTER_MS = 600_000
"""An open claim older than this is restated, so that a 12-hour handler does not pin 12 hours."""


def needed_from(state: State) -> int:
    """The lowest offset an open entry needs: with its last full statement a claim starts over."""
    stated = [claim.stated_at for claim in state.claims.values()]
    lowest = state.parked.lowest_offset()
    return min([*stated, state.next_offset, *([] if lowest is None else [lowest])])


def restatement(state: State, older_than_ms: int = RESTATE_AFTER_MS) -> Restate:
    """What to append before trimming: old open claims in full, and what has ended for good.

    It must be written by the tracker's fenced producer: one that lands after a later one's trim
    would speak of a log that is gone.
    """
    old = [
        Restated(claim.id, claim.source, claim.runs, tuple(replace(p) for p in claim.parts))
        for claim in state.claims.values()
        if claim.stated_ms + older_than_ms <= state.clock_ms
    ]
    return Restate(state.next_offset, tuple(old), tuple(_ended(state)))


def _ended(state: State) -> Iterator[EndedRuns]:
    open_claims: dict[Source, list[OpenClaim]] = {}
    for claim in state.claims.values():
        open_claims.setdefault(claim.source, []).append(claim)
    for stream, ever in state.claimed.items():
        source = Source(*stream, ever.epoch)
        still_open = Runs(
            run
            for claim in open_claims.get(source, ())
            for run in claimed.offsets(claim.runs, claim.open)
        )
        ended = ever.runs.without(still_open)
        yield EndedRuns(source, tuple((start, stop - start) for start, stop in ended))
