"""What is emitted at the end of a batch: what is overdue and still open, oldest first.

At the end of a batch and not at the moment of expiry: when the log is folded again, the end of an
entry may stand further down the same batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import islice
from operator import attrgetter, itemgetter

from msgspec import Struct

from marq.core.fold import opening
from marq.core.fold.parked import NEVER_MS, Answers
from marq.core.fold.state import OpenClaim, State
from marq.core.markers import bits, claimed
from marq.core.markers.marker import Action, ClaimId, Failed, ParkedRef, Part, Source

LIMIT = 5_000
"""Events a batch of one partition may emit: the rest comes with the next ones."""


class Overdue(Struct, frozen=True, gc=False):
    """A claimed message whose time is up."""

    source: Source
    offset: int
    names: tuple[tuple[ClaimId, int], ...]
    """Its claims and indexes, the one that speaks for it first: it lapsed last."""
    action: Action
    deadline_ms: int
    ahead_ms: int
    attempt: int
    """The attempt that was begun; 0 = it was only prefetched."""
    kept_alive: bool
    reason: str
    failed: tuple[Failed, ...] = ()
    """Attempts that were retried by the worker that had it."""

    @property
    def lapse_ms(self) -> int:
        return self.deadline_ms - self.ahead_ms


class Due(Struct, frozen=True, gc=False):
    """A parked message whose time has come."""

    ref: ParkedRef
    action: Action
    lapse_ms: int
    tries: int
    reason: str
    queue: str = ""
    half: Answers | None = None
    """Of a half message."""


Event = Overdue | Due


def emit(state: State, limit: int = LIMIT) -> list[Event]:
    """The events of a batch, at most `limit`; they are marked until their end is read."""
    found: list[Iterator[Event]] = [_overdue(state), _due(state)]
    chosen = list(islice(merge(*found, key=attrgetter("lapse_ms")), limit))
    for event in chosen:
        _mark(state, event)
    return chosen


def next_lapse_ms(state: State) -> int | None:
    """When something open lapses next, if nothing else happens; None: nothing is left to.

    Never too late, but it may be too early: then nothing is emitted and a later time is next.
    """
    leased = (p.lapse_ms for c in state.claims.values() for p in c.parts if p.indexes & ~c.marked)
    parked = (about.first_lapse_ms for about in state.parked.index.values())
    return min((at_ms for at_ms in (*leased, *parked) if at_ms < NEVER_MS), default=None)


def _overdue(state: State) -> Iterator[Event]:
    lapsed = [
        (part.lapse_ms, claim.source, claim.runs, claim, part)
        for claim in state.claims.values()
        for part in claim.parts
        if state.lapsed(part) and part.indexes & ~claim.marked
    ]
    for *_, claim, part in sorted(lapsed, key=lambda found: found[:3]):
        for index, offset in claimed.numbered(claim.runs, part.indexes & ~claim.marked):
            event = _spoken(claim, part, index, offset, _others(state, claim, offset))
            if event is not None:
                yield event


_Other = tuple[ClaimId, int, Part]
"""Another claim of the same offset, the message's index in it, and its terms there."""


def _others(state: State, claim: OpenClaim, offset: int) -> list[_Other]:
    found = []
    for twin in opening.twins(state, claim):
        mask = claimed.indexes(twin.runs, offset, offset + 1) & twin.open
        if mask:
            part = next(p for p in twin.parts if p.indexes & mask)
            found.append((twin.id, mask.bit_length() - 1, part))
    return found


def _spoken(
    claim: OpenClaim, part: Part, index: int, offset: int, others: list[_Other]
) -> Overdue | None:
    """The event, if this claim speaks for the offset: it lapses last.

    An attempt begun under any of the claims was an attempt, and who rejected the message under one
    has rejected it.
    """
    if any((other.lapse_ms, name) > (part.lapse_ms, claim.id) for name, _, other in others):
        return None
    terms = [(claim.id, part), *((name, other) for name, _, other in others)]
    terms.sort(key=itemgetter(0))
    rejected = [each for _, each in terms if each.action is Action.BURY]
    decisive = rejected[-1] if rejected else part
    return Overdue(
        source=claim.source,
        offset=offset,
        names=((claim.id, index), *((name, at) for name, at, _ in others)),
        action=decisive.action,
        deadline_ms=part.deadline_ms,
        ahead_ms=part.ahead_ms,
        attempt=max(each.attempt for _, each in terms),
        kept_alive=part.kept_alive,
        reason=decisive.reason,
        failed=part.failed,
    )


def _due(state: State) -> Iterator[Event]:
    for entry in state.parked.overdue(state.clock_ms):
        about = (entry.lapse_ms, entry.tries, entry.reason, entry.queue, entry.half)
        yield Due(entry.ref, entry.action, *about)


def _mark(state: State, event: Event) -> None:
    match event:
        case Overdue(names=((claim, index), *_)):
            state.claims[claim].marked |= bits.span(index, 1)
        case Due(ref=ref):
            state.parked.mark(ref)
