"""The fold: what the records of one hold-log partition, in offset order, add up to.

Pure: no Kafka, no Spark, no clock, no settings. Every rule about what is open, whose it is and
until when stands here, once; `core.overdue` says what is emitted, `core.restate` what may be
trimmed. Spark's tracker, the memory broker and the property tests all run this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from msgspec.structs import replace

from marq.core.fold import opening
from marq.core.fold.state import OpenClaim, State
from marq.core.markers import bits, claimed
from marq.core.markers.marker import (
    FAILED,
    Action,
    Begun,
    Claim,
    ClaimId,
    Failed,
    Forget,
    HalfAnswer,
    Held,
    Hold,
    KeepAlive,
    Marker,
    Parked,
    Part,
    Progress,
    Restate,
    Restated,
    Tick,
)

JUMP_MS = 2_000
"""Ticks come every 100 ms. A longer silence means that the tracker or the leader was away."""
GRACE_MS = 5_000
"""How long acks and beats that waited in producers meanwhile may take to arrive."""


class Record(NamedTuple):
    """A record of a hold log; `body` is None where the bytes were no marker of ours."""

    offset: int
    at_ms: int
    body: Marker | Parked | None


def fold(state: State, records: Iterable[Record]) -> State:
    """The state after these records. Takes the state over and returns it."""
    for offset, at_ms, body in records:
        if offset < state.next_offset:
            continue  # read twice
        state.next_offset = offset + 1
        _advance(state, at_ms)
        if body is None:
            state.skipped += 1
        elif isinstance(body, Parked):
            state.parked.park(offset, at_ms, body, state.clock_ms)
        else:
            _RULES[type(body)](state, offset, body)
    return state


def _advance(state: State, at_ms: int) -> None:
    """Move the clocks. Time never runs back, whatever the leader's clock does.

    The first record counts as a jump too: a state built anew from a trimmed log does not know
    what came before, and being late is safe where being early is not.
    """
    now = max(at_ms, state.clock_ms)
    if now - state.clock_ms > JUMP_MS:
        state.grace_ms = now + GRACE_MS
    state.clock_ms = now
    if now >= state.grace_ms:
        state.lease_clock_ms = now


# Claims: what opens.


def _claim(state: State, offset: int, claim: Claim) -> None:
    known = state.claims.get(claim.id)
    if known is not None:
        known.named_at = offset  # sent again: same id = same claim, its time stands
        return
    part = Part(
        indexes=bits.span(0, claimed.size(claim.runs)),
        deadline_ms=state.clock_ms + claim.lease_ms,
        lease_ms=claim.lease_ms,
        kept_alive=True,
    )
    restated = Restated(claim.id, claim.source, claim.runs, (part,))
    opening.open_claim(state, offset, restated, claim.start, offset)


# Progress, beats and holds: what moves and what ends.


def _progress(state: State, offset: int, progress: Progress) -> None:
    for step in progress.steps:
        claim = state.claims.get(step.claim)
        if claim is None:
            continue  # all of it has ended, and perhaps was trimmed since
        claim.named_at = offset
        # Ended first: what was acked within one record's time needs no lease.
        opening.end(state, offset, claim, step.ended)
        for begun in step.begun:
            _begin(state, claim, begun)
    for ref in progress.parked:
        state.parked.end(ref)


def _begin(state: State, claim: OpenClaim, begun: Begun) -> None:
    """Start the lease of these messages.

    Only a higher attempt than the one begun counts: a begun that lands late, after the hold that
    followed it, must not take the message back into the lease of a worker that gave it away.
    """
    moved = _take(state, claim, begun.indexes, lambda part: begun.attempt > part.attempt)
    for part in moved:
        part.deadline_ms = state.clock_ms + begun.lease_ms
        part.ahead_ms, part.lease_ms = begun.ahead_ms, begun.lease_ms
        part.attempt, part.kept_alive = begun.attempt, begun.kept_alive
        part.action, part.reason = Action.EXPIRE, ""
    _put_back(claim, moved)


def _take(
    state: State,
    claim: OpenClaim,
    indexes: int,
    wanted: Callable[[Part], bool],
    late: bool = False,
) -> list[Part]:
    """Cut these indexes out of the claim's parts, where they may still be moved.

    A record appended at or after the end of the lease it would move is void: someone else may
    have the message already.
    """
    moved = []
    for part in claim.parts:
        cut = part.indexes & indexes
        if cut and wanted(part) and (late or not state.lapsed(part)):
            moved.append(replace(part, indexes=cut))
            part.indexes &= ~cut
    return moved


def _put_back(claim: OpenClaim, parts: list[Part]) -> None:
    """Put parts (back) in; equal ones become one, so that a claim has few."""
    merged: dict[tuple[object, ...], Part] = {}
    for part in (*claim.parts, *parts):
        if not part.indexes:
            continue
        terms = (
            part.deadline_ms,
            part.ahead_ms,
            part.lease_ms,
            part.attempt,
            part.kept_alive,
            part.action,
            part.reason,
            part.failed,
        )
        same = merged.setdefault(terms, part)
        if same is not part:
            same.indexes |= part.indexes
    claim.parts = list(merged.values())


def _keep_alive(state: State, offset: int, beat: KeepAlive) -> None:
    """Renew what is kept alive: prefetched messages, and running handlers' by their own lease."""
    for sequence in beat.sequences:
        claim = state.claims.get(ClaimId(beat.worker, sequence))
        if claim is None:
            continue  # a straggler: nothing that ended is revived
        claim.named_at = offset
        for part in claim.parts:
            if part.kept_alive and part.action is Action.EXPIRE and not state.lapsed(part):
                part.deadline_ms = max(part.deadline_ms, state.clock_ms + part.lease_ms)
        if len(claim.parts) > 1:
            _put_back(claim, [])


def _hold(state: State, offset: int, hold: Hold) -> None:
    for held in hold.held:
        claim = state.claims.get(held.claim)
        if claim is not None:
            claim.named_at = offset
            _hold_claimed(state, claim, held, hold.by_tracker)
    for parked in hold.parked:
        state.parked.hold(parked, state.clock_ms, late=hold.by_tracker)


def _hold_claimed(state: State, claim: OpenClaim, held: Held, by_tracker: bool) -> None:
    """Put these messages under an action.

    A worker's hold takes only what it has a lease on: the same hold landing twice, or an older
    one after a newer, changes nothing. Burying is the last word a worker has on a message, so it
    also takes one that waits for its retry. The tracker's is the answer to what is overdue.
    """
    takes = {Action.EXPIRE, Action.REDELIVER} if held.action is Action.BURY else {Action.EXPIRE}
    moved = _take(
        state,
        claim,
        held.indexes,
        lambda part: by_tracker or part.action in takes,
        late=by_tracker,
    )
    deadline_ms = state.clock_ms + held.after_ms
    for part in moved:
        opening.unmark(state, claim, part.indexes)
        if held.action is Action.EXTEND:
            part.deadline_ms = max(part.deadline_ms, deadline_ms)
            if by_tracker:  # put off: not emitted before, however much ahead it would be
                part.ahead_ms = min(part.ahead_ms, part.deadline_ms - deadline_ms)
        else:
            if held.action is Action.REDELIVER and part.attempt and not by_tracker:
                failed = Failed(part.attempt, state.clock_ms, held.reason)
                part.failed = (*part.failed, failed)[-FAILED:]
            part.deadline_ms, part.ahead_ms = deadline_ms, held.ahead_ms
            part.action, part.reason = held.action, held.reason
    _put_back(claim, moved)


# Half messages.


def _answer(state: State, offset: int, answer: HalfAnswer) -> None:
    state.parked.answer(answer, state.clock_ms)


# Restatements: the same again, so that older records can go.


def _restate(state: State, offset: int, restate: Restate) -> None:
    state.restated_ms = state.clock_ms
    known_at = max(0, restate.as_of - 1)
    for claim in filter(claimed.is_sound, restate.claims):
        known = state.claims.get(claim.id)
        if known is None:
            # Built anew from a trimmed log, or it ended after the tracker looked: then its
            # offsets count as claimed and it opens nothing.
            opening.open_claim(state, offset, claim, claim.runs[0][0], known_at)
        elif known.named_at < restate.as_of:
            _adopt(state, offset, known, claim.parts)
            known.named_at = known_at
    for ended in restate.ended:
        opening.end_runs(state, offset, ended)


def _adopt(state: State, offset: int, known: OpenClaim, parts: tuple[Part, ...]) -> None:
    """Start over from this statement; not if it would open again what has ended."""
    if any(part.indexes & ~known.open for part in parts):
        return
    known.parts = [replace(part) for part in parts]
    known.marked &= known.open
    known.stated_at, known.stated_ms = offset, state.clock_ms


def _forget(state: State, offset: int, forget: Forget) -> None:
    for ended in forget.ended:
        opening.forget(state, offset, ended)


def _tick(state: State, offset: int, tick: Tick) -> None:
    """Its time was all it had to say."""


_RULES: dict[type, Callable[[State, int, Any], None]] = {
    Claim: _claim,
    Progress: _progress,
    KeepAlive: _keep_alive,
    Hold: _hold,
    Restate: _restate,
    Forget: _forget,
    HalfAnswer: _answer,
    Tick: _tick,
}
