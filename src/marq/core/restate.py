"""What of a hold log is still needed, and what must be written before the rest is trimmed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from msgspec.structs import replace

from marq.core import claimed
from marq.core.fold import Record, fold
from marq.core.marker import EndedRuns, Forget, Marker, Restate, Restated, Source
from marq.core.runs import Runs
from marq.core.state import OpenClaim, State

RESTATE_AFTER_MS = 600_000
"""An open claim older than this is restated, so that a 12-hour handler does not pin 12 hours."""
_CLAIMS = 2_000
"""Claims or sources in one record."""


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


def restatements(state: State) -> list[Restate]:
    """The restatement, in records that a broker takes: a claim or a source is some 100 bytes."""
    whole = restatement(state)
    return [
        Restate(whole.as_of, whole.claims[at : at + _CLAIMS], whole.ended[at : at + _CLAIMS])
        for at in range(0, max(1, len(whole.claims), len(whole.ended)), _CLAIMS)
    ]


def caught_up(restate: Restate, state: State, tail: Iterable[Record]) -> Restate:
    """The restatement as of the end of the tail; `state` is empty but for its clocks and offset.

    Between the batch and the moment act writes, a claim is beaten or acked: as it was made, such a
    claim's restatement is out of date, and one that is beaten often would never be taken over.
    Only the claims restated are folded on. What else the tail opens is not whole here.
    """
    known = Record(state.next_offset, state.clock_ms, Restate(state.next_offset, restate.claims))
    ids = {claim.id for claim in restate.claims}
    state = fold(state, [known])
    state.next_offset -= 1  # the restatement is not in the log yet
    state = fold(state, tail)
    now = restatement(state, older_than_ms=0)
    claims = tuple(claim for claim in now.claims if claim.id in ids)
    return Restate(now.as_of, claims, restate.ended)


def parting(restate: Restate, gone: Collection[bytes]) -> list[Marker]:
    """The restatement, and the last that is said of sources whose topics are gone.

    Both or neither must be written before trimming: together they say what the restatement did.
    """
    if not any(ended.source.topic_id in gone for ended in restate.ended):
        return [restate]
    last = tuple(ended for ended in restate.ended if ended.source.topic_id in gone)
    rest = tuple(ended for ended in restate.ended if ended.source.topic_id not in gone)
    return [Restate(restate.as_of, restate.claims, rest), Forget(last)]


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
