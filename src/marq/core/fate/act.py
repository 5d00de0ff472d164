"""Which events of a batch still stand when act is about to perform them.

Act reads the hold log from the end of the batch to the high watermark it found *after* fencing
every earlier act. What ended there, was claimed again or put off meanwhile is dropped; the rest is
ended by act's own records, in one transaction with the copies. So each expiry is acted on once,
whatever Spark replays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from marq.core.catalog.definitions import Catalog
from marq.core.fold.overdue import Due, Event, Overdue
from marq.core.markers import bits, claimed
from marq.core.markers.marker import (
    Action,
    Claim,
    ClaimId,
    Held,
    HeldParked,
    Hold,
    Marker,
    Parked,
    ParkedRef,
    Progress,
    Step,
)

Name = tuple[ClaimId, int] | ParkedRef


def standing(events: Iterable[Event], tail: Iterable[Marker | Parked | None]) -> list[Event]:
    """The events nothing in the tail speaks against."""
    events = list(events)
    if not events:
        return []
    settled: set[Name] = set()
    claims: list[Claim] = []
    for marker in tail:
        match marker:
            case Progress() | Hold():
                settled.update(_settled(marker))
            case Claim():
                claims.append(marker)
    return [e for e in events if settled.isdisjoint(_names(e)) and not _claimed_again(e, claims)]


def ends(events: Iterable[Event]) -> Progress:
    """The record that ends these events' entries, under the claim that speaks for each."""
    masks: dict[ClaimId, int] = {}
    parked: list[ParkedRef] = []
    for event in events:
        match event:
            case Overdue(names=((claim, index), *_)):
                masks[claim] = masks.get(claim, 0) | bits.span(index, 1)
            case Due(ref=ref):
                parked.append(ref)
    return Progress(
        tuple(Step(claim, mask) for claim, mask in sorted(masks.items())), tuple(parked)
    )


def put_off(events: Iterable[Event], after_ms: int) -> Hold:
    """The answer to events that cannot be performed now: they are emitted again after a while."""
    masks: dict[ClaimId, int] = {}
    parked: list[HeldParked] = []
    for event in events:
        match event:
            case Overdue(names=((claim, index), *_)):
                masks[claim] = masks.get(claim, 0) | bits.span(index, 1)
            case Due(ref=ref):
                parked.append(HeldParked(ref, Action.EXTEND, after_ms))
    held = (Held(claim, mask, Action.EXTEND, after_ms) for claim, mask in sorted(masks.items()))
    return Hold(tuple(held), tuple(parked), by_tracker=True)


def apart(number: int, refused: set[int]) -> tuple[list[int], list[int]]:
    """So many events, of which these were refused, in two parts to be written one after the other.

    Those that were not refused go together. Where all were, by halves: records travel in batches,
    and one that is too large takes its whole batch with it.
    """
    taken = [each for each in range(number) if each not in refused]
    doubtful = sorted(refused)
    if taken:
        return taken, doubtful
    return doubtful[: number // 2], doubtful[number // 2 :]


def understood(events: Iterable[Event], catalog: Catalog) -> tuple[list[Event], list[Event]]:
    """Events of queues this release understands, and those of a newer one's: what becomes of these
    is not for this one to say."""
    known: list[Event] = []
    newer: list[Event] = []
    for event in events:
        (newer if catalog.is_newer(queue_of(event)) else known).append(event)
    return known, newer


def queue_of(event: Event) -> str:
    """Whose message it is about."""
    return event.queue if isinstance(event, Due) else event.source.queue


def _names(event: Event) -> Iterable[Name]:
    return event.names if isinstance(event, Overdue) else (event.ref,)


def _settled(marker: Progress | Hold) -> Iterator[Name]:
    """What the marker ends or, from the tracker itself, puts off.

    A worker's hold comes too late for what is overdue already, and so does a user's cancel.
    """
    match marker:
        case Progress(steps=steps, parked=refs):
            for step in steps:
                yield from ((step.claim, index) for index in bits.indexes(step.ended))
            yield from refs
        case Hold(held=held, parked=parked, by_tracker=True):
            for item in held:
                yield from ((item.claim, index) for index in bits.indexes(item.indexes))
            yield from (put_off.ref for put_off in parked)


def _claimed_again(event: Event, claims: list[Claim]) -> bool:
    """Whether a claim in the tail, not one of the event's own sent twice, covers its offset.

    Or is of a newer epoch: what was open before the seek is void.
    """
    if not isinstance(event, Overdue):
        return False
    own = {claim for claim, _ in event.names}
    return any(
        claim.source.epoch > event.source.epoch
        or (claim.id not in own and claimed.indexes(claim.runs, event.offset, event.offset + 1))
        for claim in claims
        if claim.source[:4] == event.source[:4] and claim.source.epoch >= event.source.epoch
    )
