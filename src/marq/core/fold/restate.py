"""What of a hold log is still needed, and what must be written before the rest is trimmed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TypeVar

from msgspec.structs import replace

from marq.core.fold.fold import Record, fold
from marq.core.fold.state import OpenClaim, State
from marq.core.markers import claimed, codec
from marq.core.markers.marker import EndedRuns, Forget, Marker, Part, Restate, Restated, Source
from marq.core.markers.runs import Runs

RESTATE_AFTER_MS = 600_000
"""An open claim older than this is restated, so that a 12-hour handler does not pin 12 hours."""
SIZES = ((400_000, False), (100_000, True), (20_000, True))
"""Bytes of a record, and whether a claim that has more is written without what can be spared. A
broker takes 1 MB by default; what it refuses even so is written in smaller records."""
_RUN_BYTES = 20
"""The most a run of offsets takes."""


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


def parts(marker: Marker, most_bytes: int, spare: bool) -> list[Marker]:
    """The restatement, or what is said of forgotten sources, in records of about this size.

    What one claim says is not taken apart. With `spare`, one that is larger alone goes without its
    reasons and failed attempts: its dead letters will tell less of what happened.
    """
    match marker:
        case Restate(as_of=as_of, claims=claims, ended=ended):
            small = (_small(claim, most_bytes, spare) for claim in claims)
            found: list[Marker] = [Restate(as_of, some) for some in _together(small, most_bytes)]
            found += [Restate(as_of, (), some) for some in _ended_parts(ended, most_bytes)]
            return found or [marker]
        case Forget(ended=ended):
            return [Forget(some) for some in _ended_parts(ended, most_bytes)]
    return [marker]


def _small(claim: Restated, most_bytes: int, spare: bool) -> Restated:
    return _without_reasons(claim) if spare and _size(claim) > most_bytes else claim


def _without_reasons(claim: Restated) -> Restated:
    same: dict[tuple[object, ...], Part] = {}
    for each in claim.parts:
        terms = (each.deadline_ms, each.ahead_ms, each.lease_ms, each.attempt, each.kept_alive)
        part = same.setdefault(
            (*terms, each.action), replace(each, indexes=0, reason="", failed=())
        )
        part.indexes |= each.indexes
    return Restated(claim.id, claim.source, claim.runs, tuple(same.values()))


def _ended_parts(ended: Iterable[EndedRuns], most_bytes: int) -> Iterator[tuple[EndedRuns, ...]]:
    step = max(1, most_bytes // _RUN_BYTES)
    short = (
        EndedRuns(each.source, each.runs[at : at + step])
        for each in ended
        for at in range(0, max(1, len(each.runs)), step)
    )
    return _together(short, most_bytes)


T = TypeVar("T", Restated, EndedRuns)


def _together(said: Iterable[T], most_bytes: int) -> Iterator[tuple[T, ...]]:
    """As many as fit into this size, at least one."""
    some: list[T] = []
    size = 0
    for each in said:
        bytes_more = _size(each)
        if some and size + bytes_more > most_bytes:
            yield tuple(some)
            some, size = [], 0
        some.append(each)
        size += bytes_more
    if some:
        yield tuple(some)


def _size(said: Restated | EndedRuns) -> int:
    if isinstance(said, Restated):
        return len(codec.encode(Restate(0, (said,))))
    return len(codec.encode(Forget((said,))))


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
