"""A simulated world: a source log, a hold log, and a book of what must hold whatever happens.

`World` is Kafka and the bookkeeper in one: it appends, folds every record into a state that never
forgets (the truth), and checks each law where it can first be broken.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from marq.core.fold.fold import Record, fold
from marq.core.fold.overdue import Due, Event, Overdue
from marq.core.fold.state import State
from marq.core.markers import bits, claimed
from marq.core.markers.marker import (
    Action,
    Claim,
    ClaimId,
    Forget,
    Hold,
    Marker,
    Parked,
    ParkedRef,
    Part,
    Progress,
    Restate,
    Source,
)
from tests.properties.hold_log import ORDERS, START_MS, blobs
from tests.properties.reference import Message as Place

Open = frozenset[Place | ParkedRef]


class Message(NamedTuple):
    """A message in the source log; a copy keeps its identity."""

    identity: int
    attempt: int


@dataclass
class World:
    """The logs, and what has become of every message."""

    source: list[Message | None] = field(default_factory=list)
    """None: a control record, nothing to deliver."""
    log: list[Record] = field(default_factory=list)
    start: int = 0
    """The hold log was trimmed below."""
    now: int = START_MS
    behind: int = 0
    """How far the leader's clock is behind."""
    has_stepped_back: bool = False
    was_rebuilt: bool = False
    committed: int = 0
    sought: int = 0
    epoch: int = 0
    truth: State = field(default_factory=State)
    open_at: list[Open] = field(default_factory=list)
    """What was open after each record of the hold log."""
    ended: set[Place | ParkedRef] = field(default_factory=set)
    claims: dict[ClaimId, Claim] = field(default_factory=dict)
    acks: dict[Place, list[Record]] = field(default_factory=dict)
    begun: dict[Place, set[int]] = field(default_factory=dict)
    fates: dict[Place | ParkedRef, str] = field(default_factory=dict)
    parked: dict[int, int] = field(default_factory=dict)
    """Identity of each parked message, by its offset."""
    settled: set[int] = field(default_factory=set)
    identities: int = 0
    story: list[str] = field(default_factory=list)

    # Kafka.

    def send(self) -> None:
        self.source.append(Message(self.identities, 1))
        self.identities += 1

    def append(self, body: Marker | Parked | None) -> Record:
        """Append to the hold log; the truth reads along."""
        record = Record(len(self.log), self.now - self.behind, body)
        self.story.append(f"{record.offset} at {record.at_ms - START_MS}: {body}")
        before = self._leases() if isinstance(body, Restate | Forget) else {}
        self.log.append(record)
        fold(self.truth, [record])
        self._note_open(record)
        if isinstance(body, Restate | Forget):
            self._check_nothing_changed(before)
        return record

    def append_of_worker(self, body: Marker) -> None:
        """Append what a worker or a user wrote, and note what it says."""
        record = self.append(body)
        match body:
            case Claim():
                self.claims[body.id] = body
            case Progress():
                self._note_progress(record, body)

    def park(self, parked: Parked) -> ParkedRef:
        record = self.append(parked)
        self.parked[record.offset] = self.identities
        self.identities += 1
        return ParkedRef(record.at_ms + parked.delay_ms, record.offset)

    def place(self, claim: ClaimId, index: int) -> Place:
        said = self.claims[claim]
        (_, offset), *_ = claimed.numbered(said.runs, 1 << index)
        return said.source, offset

    def current(self) -> Source:
        return ORDERS._replace(epoch=self.epoch)

    # The book.

    def _note_open(self, record: Record) -> None:
        now_open = open_in(self.truth)
        before = self.open_at[-1] if self.open_at else frozenset()
        assert not (now_open - before) & self.ended, "what had ended opened again"
        self.ended |= before - now_open
        self.open_at.append(now_open)
        match record.body:
            case Hold(parked=held):
                for item in held:
                    if item.action is Action.CANCEL and item.ref in before - now_open:
                        self.fates[item.ref] = "cancelled"
                        self.settled.add(self.parked[item.ref.offset])

    def _note_progress(self, record: Record, progress: Progress) -> None:
        for step in progress.steps:
            for index in bits.indexes(step.ended):
                place = self.place(step.claim, index)
                self.acks.setdefault(place, []).append(record)
                self.settled.add(self.message(place).identity)
            for begun in step.begun:
                for index in bits.indexes(begun.indexes):
                    place = self.place(step.claim, index)
                    self.begun.setdefault(place, set()).add(begun.attempt)

    def message(self, place: Place) -> Message:
        message = self.source[place[1]]
        assert message is not None
        return message

    # Acting: what the tracker does, in one transaction each.

    def check_may_act(self, event: Event, high_watermark: int) -> None:
        """What must hold of an event when act performs it."""
        what = event.ref if isinstance(event, Due) else (event.source, event.offset)
        open_then = self.open_at[high_watermark - 1]
        assert what not in self.fates, f"{what} is acted on twice: {self.fates[what]} before"
        assert what in open_then, f"{what} had ended before act looked"
        if isinstance(event, Overdue):
            for ack in self.acks.get((event.source, event.offset), ()):
                assert ack.offset >= high_watermark, "a copy follows an ack act could see"
                assert ack.at_ms + self.behind >= event.lapse_ms or self.has_stepped_back, (
                    "a copy follows an ack that was in time"
                )
            begun = self.begun.get((event.source, event.offset), set())
            assert event.attempt in begun | {0}, "an attempt is counted that was never begun"

    def copy(self, event: Event) -> None:
        if isinstance(event, Due):
            self.source.append(Message(self.parked[event.ref.offset], 1))
            self.fates[event.ref] = "released"
            return
        message = self.message((event.source, event.offset))
        attempt = event.attempt + 1 if event.attempt else message.attempt
        self.source.append(Message(message.identity, attempt))
        self.fates[event.source, event.offset] = "copied"

    def bury(self, event: Event) -> None:
        if isinstance(event, Due):
            self.settled.add(self.parked[event.ref.offset])
            self.fates[event.ref] = "buried"
            return
        self.settled.add(self.message((event.source, event.offset)).identity)
        self.fates[event.source, event.offset] = "buried"

    # Laws that hold at every moment.

    def check(self) -> None:
        """Every message is settled or open, never neither; and the state is what is open."""
        now_open = self.open_at[-1] if self.open_at else frozenset()
        for offset in range(self.sought, self.committed):
            place = (self.current(), offset)
            if self.source[offset] is not None and place not in now_open:
                known = place in self.acks or place in self.fates
                assert known, f"{place} is committed, not open, not acked and not copied: lost"
        for offset in self.parked:
            refs = [ref for ref in now_open if isinstance(ref, ParkedRef) and ref.offset == offset]
            fated = [ref for ref in self.fates if isinstance(ref, ParkedRef)]
            known = offset in {ref.offset for ref in fated}
            assert bool(refs) != known, f"parked message {offset} is lost, or there and gone"
        self._check_size(self.truth)

    def _check_size(self, state: State) -> None:
        blob, *others = blobs(state)
        size = len(blob) + sum(len(each) for other in others for each in other.values())
        leases = sum(len(claim.parts) + len(claim.twins) for claim in state.claims.values())
        bound = 100 + 100 * len(state.claims) + 40 * leases + 60 * len(state.parked)
        bound += 16 * sum(len(ever.runs) for ever in state.claimed.values())
        assert size <= bound, f"the state has {size} bytes for {len(state.claims)} claims"

    def _leases(self) -> dict[ClaimId, list[Part]]:
        return {
            claim.id: sorted(claim.parts, key=lambda part: part.indexes)
            for claim in self.truth.claims.values()
        }

    def _check_nothing_changed(self, before: dict[ClaimId, list[Part]]) -> None:
        now_open = self.open_at[-2:]
        assert now_open[0] == now_open[-1], "a restatement opened or ended something"
        if not self.was_rebuilt:
            assert self._leases() == before, "a restatement changed what was known"

    def check_rebuilt(self) -> None:
        """A state built anew from the trimmed log: the same is open, and not for less long."""
        rebuilt = fold(State(), self.log[self.start :])
        assert open_in(rebuilt) == open_in(self.truth), "a rebuilt state has other things open"
        if self.has_stepped_back:
            return  # the clock before the log's start is not known any more
        for claim in self.truth.claims.values():
            assert claim.id in rebuilt.claims, "a rebuilt state does not know a claim"
            for part in claim.parts:
                for other in rebuilt.claims[claim.id].parts:
                    if other.indexes & part.indexes:
                        self._check_rebuilt_part(part, other)

    def _check_rebuilt_part(self, part: Part, rebuilt: Part) -> None:
        assert rebuilt.attempt >= part.attempt, "a rebuilt state forgot that it was begun"
        same = (rebuilt.action, rebuilt.attempt) == (part.action, part.attempt)
        if same and not self.truth.lapsed(part):
            assert rebuilt.lapse_ms >= part.lapse_ms, "a rebuilt lease is shorter"


def open_in(state: State) -> Open:
    """Everything that is open in a state."""
    claimed_ones = {
        (claim.source, offset)
        for claim in state.claims.values()
        for _, offset in claimed.numbered(claim.runs, claim.open)
    }
    return frozenset(claimed_ones | {entry.ref for entry in state.parked})
