"""Which events of a batch still stand when act is about to perform them.

Act reads the hold log from the end of the batch to the high watermark it found *after* fencing
every earlier act. What ended there, was claimed again or put off meanwhile is dropped; the rest is
ended by act's own records, in one transaction with the copies. So each expiry is acted on once,
whatever Spark replays.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from marq.core.catalog.definitions import Catalog
from marq.core.fold.overdue import Due, Event, Overdue
from marq.core.fold.sources import Stream
from marq.core.markers import bits
from marq.core.markers.marker import (
    Action,
    Check,
    Claim,
    ClaimId,
    HalfAnswer,
    Held,
    HeldParked,
    Hold,
    Marker,
    Parked,
    ParkedRef,
    Progress,
    Source,
    Step,
)
from marq.core.markers.runs import Runs

Name = tuple[ClaimId, int] | ParkedRef
_ASKING = (Action.CHECK, Action.BURY)
"""Holds that are about half messages which nobody has decided."""


def standing(events: Iterable[Event], tail: Iterable[Marker | Parked | None]) -> list[Event]:
    """The events nothing in the tail speaks against."""
    events = list(events)
    if not events:
        return []
    said = _Tail(events)
    for marker in tail:
        said.read(marker)
    return [event for event in events if not said.speaks_against(event)]


class _Tail:
    """What the log says after a batch, as far as it speaks against the batch's events."""

    def __init__(self, events: list[Event]) -> None:
        self._settled: set[Name] = set()
        self._again = _ClaimedAgain(events)
        self._decided: set[ParkedRef] = set()
        """Half messages: nobody need be asked about them any more."""
        self._asked: set[ParkedRef] = set()
        """Half messages that were asked about, or given up, once more: void where it is decided."""

    def read(self, marker: Marker | Parked | None) -> None:
        match marker:
            case Progress() | Hold():
                self._settled.update(_settled(marker))
                self._asked.update(_asked(marker))
            case HalfAnswer(halves=halves, verdict=Check.COMMIT | Check.ROLLBACK):
                self._decided.update(halves)
            case Claim():
                self._again.take(marker)

    def speaks_against(self, event: Event) -> bool:
        if not self._settled.isdisjoint(_names(event)) or event in self._again:
            return True
        if not isinstance(event, Due) or event.action is not Action.CHECK:
            return False
        return event.ref in self._decided or event.ref in self._asked


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


def said(events: Iterable[tuple[Event, HeldParked | None]]) -> list[Marker]:
    """The records that say what was done about these: the ends, and what holds others."""
    events = list(events)
    ended = [event for event, hold in events if hold is None]
    held = tuple(hold for _, hold in events if hold is not None)
    markers: list[Marker] = [Hold(parked=held, by_tracker=True)] if held else []
    return [*markers, ends(ended)] if ended else markers


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
            yield from (each.ref for each in parked if each.action not in _ASKING)


def _asked(marker: Progress | Hold) -> Iterator[ParkedRef]:
    if isinstance(marker, Hold) and marker.by_tracker:
        yield from (each.ref for each in marker.parked if each.action in _ASKING)


class _ClaimedAgain:
    """The events whose offset a claim in the tail covers that is not one of their own sent twice,
    or whose source was claimed in a newer epoch: what was open before the seek is void.

    By source, and as runs: a tail may have thousands of claims, and a batch thousands of events.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        overdue = [event for event in events if isinstance(event, Overdue)]
        self._own = {claim for event in overdue for claim, _ in event.names}
        self._epochs: dict[Stream, int] = {event.source[:4]: -1 for event in overdue}
        """The newest that the tail speaks of."""
        self._covered: dict[Source, Runs] = {}
        self._twice: dict[tuple[Source, int], set[ClaimId]] = {}
        """By source and offset, the claims of events that were sent again."""
        self._offsets: dict[Source, list[int]] = {}
        for event in sorted(overdue, key=lambda event: event.offset):
            self._offsets.setdefault(event.source, []).append(event.offset)

    def take(self, claim: Claim) -> None:
        stream, source = claim.source[:4], claim.source
        if stream not in self._epochs:
            return
        self._epochs[stream] = max(self._epochs[stream], source.epoch)
        for first, count in claim.runs:
            if claim.id not in self._own:
                self._covered.setdefault(source, Runs()).add(first, first + count)
                continue
            offsets = self._offsets.get(source, [])
            for at in offsets[bisect_left(offsets, first) : bisect_left(offsets, first + count)]:
                self._twice.setdefault((source, at), set()).add(claim.id)

    def __contains__(self, event: Event) -> bool:
        if not isinstance(event, Overdue):
            return False
        source, at = event.source, event.offset
        if self._epochs[source[:4]] > source.epoch or at in self._covered.get(source, ()):
            return True
        others = self._twice.get((source, at), set())
        return not others.issubset(claim for claim, _ in event.names)
