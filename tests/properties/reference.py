"""The fold once more, slow and obvious: every message by itself, every record by the book.

Written from the design, not from the code: no sets as integers, no runs, no chunks, no merging.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from marq.core.fold.fold import Record
from marq.core.markers.marker import (
    Action,
    Begun,
    Check,
    Claim,
    ClaimId,
    Forget,
    HalfAnswer,
    Held,
    HeldParked,
    Hold,
    KeepAlive,
    Parked,
    ParkedRef,
    Progress,
    Source,
)

Message = tuple[Source, int]


@dataclass
class Lease:
    """One message under one claim."""

    deadline: int
    ahead: int
    lease: int
    attempt: int
    kept_alive: bool
    action: Action
    reason: str

    @property
    def lapse(self) -> int:
        return self.deadline - self.ahead


@dataclass
class Waiting:
    """One parked message."""

    due: int
    ahead: int
    action: Action
    tries: int = 0
    reason: str = ""
    is_half: bool = False
    unknown: dict[int, str] = field(default_factory=dict)
    """Requests about a half message that nobody knew an answer to, with the reasons."""

    @property
    def lapse(self) -> int:
        return self.due - self.ahead


@dataclass
class Reference:
    """What a hold log adds up to."""

    clock: int = 0
    lease_clock: int = 0
    grace: int = 0
    begun: bool = False
    skipped: int = 0
    offsets: dict[ClaimId, list[Message]] = field(default_factory=dict)
    """The messages of every claim that was ever read, by index."""
    open: dict[Message, dict[ClaimId, Lease]] = field(default_factory=dict)
    seen: set[Message] = field(default_factory=set)
    epochs: dict[tuple[object, ...], int] = field(default_factory=dict)
    parked: dict[ParkedRef, Waiting] = field(default_factory=dict)
    marked: set[Message | ParkedRef] = field(default_factory=set)

    def read(self, record: Record) -> None:  # noqa: C901 - one case for each kind
        """Take in one record."""
        self._advance(record.at_ms)
        match record.body:
            case None:
                self.skipped += 1
            case Claim() as claim:
                self._claim(claim)
            case Progress() as progress:
                self._progress(progress)
            case KeepAlive() as beat:
                self._beat(beat)
            case Hold() as hold:
                self._hold(hold)
            case Forget() as forget:
                self._forget(forget)
            case HalfAnswer() as answer:
                self._answer(answer)
            case Parked() as parked:
                self._park(record, parked)
            # A tick, or a restatement: it says nothing new.

    def _advance(self, at: int) -> None:
        jumped = at - self.clock > 2_000 or not self.begun
        self.begun = True
        self.clock = max(self.clock, at)
        if jumped:
            self.grace = self.clock + 5_000
        if self.clock >= self.grace:
            self.lease_clock = self.clock

    def _claim(self, claim: Claim) -> None:
        if claim.id in self.offsets or not self._of_the_newest_epoch(claim.source):
            return
        offsets = [n for first, count in claim.runs for n in range(first, first + count)]
        self.offsets[claim.id] = [(claim.source, offset) for offset in offsets]
        for message in self.offsets[claim.id]:
            if message not in self.seen or message in self.open:
                deadline = self.clock + claim.lease_ms
                lease = Lease(deadline, 0, claim.lease_ms, 0, True, Action.EXPIRE, "")
                self.open.setdefault(message, {})[claim.id] = lease
                self.marked.discard(message)
        self.seen |= {(claim.source, offset) for offset in range(claim.start, max(offsets) + 1)}

    def _of_the_newest_epoch(self, source: Source) -> bool:
        newest = self.epochs.get(source[:4], source.epoch)
        if source.epoch > newest:
            for message in [m for m in self.open if m[0][:4] == source[:4]]:
                del self.open[message]
        self.epochs[source[:4]] = max(newest, source.epoch)
        return source.epoch >= newest

    def _named(self, claim: ClaimId, indexes: int) -> Iterator[Message]:
        """The messages of the claim with these indexes that are open under it."""
        for index, message in enumerate(self.offsets.get(claim, ())):
            if indexes >> index & 1 and claim in self.open.get(message, ()):
                yield message

    def _lapsed(self, lease: Lease) -> bool:
        return lease.lapse <= self.lease_clock

    def _progress(self, progress: Progress) -> None:
        for step in progress.steps:
            for message in list(self._named(step.claim, step.ended)):
                del self.open[message]
                self.marked.discard(message)
            for begun in step.begun:
                self._begin(step.claim, begun)
        for ref in progress.parked:
            self.parked.pop(ref, None)
            self.marked.discard(ref)

    def _begin(self, claim: ClaimId, begun: Begun) -> None:
        for message in self._named(claim, begun.indexes):
            lease = self.open[message][claim]
            if not self._lapsed(lease) and begun.attempt > lease.attempt:
                self.open[message][claim] = Lease(
                    deadline=self.clock + begun.lease_ms,
                    ahead=begun.ahead_ms,
                    lease=begun.lease_ms,
                    attempt=begun.attempt,
                    kept_alive=begun.kept_alive,
                    action=Action.EXPIRE,
                    reason="",
                )

    def _beat(self, beat: KeepAlive) -> None:
        claims = {ClaimId(beat.worker, sequence) for sequence in beat.sequences}
        for leases in self.open.values():
            for claim in claims & set(leases):
                lease = leases[claim]
                leased = lease.action is Action.EXPIRE and not self._lapsed(lease)
                if leased and lease.kept_alive:
                    lease.deadline = max(lease.deadline, self.clock + lease.lease)

    def _hold(self, hold: Hold) -> None:
        for held in hold.held:
            for message in self._named(held.claim, held.indexes):
                self._hold_one(message, held, hold.by_tracker)
        for held_parked in hold.parked:
            self._hold_parked(held_parked, hold.by_tracker)

    def _hold_one(self, message: Message, held: Held, by_tracker: bool) -> None:
        lease = self.open[message][held.claim]
        last_word = held.action is Action.BURY and lease.action is Action.REDELIVER
        takes = lease.action is Action.EXPIRE or last_word
        if not by_tracker and (self._lapsed(lease) or not takes):
            return
        self.marked.discard(message)
        if held.action is Action.EXTEND:
            lease.deadline = max(lease.deadline, self.clock + held.after_ms)
            if by_tracker:
                lease.ahead = min(lease.ahead, lease.deadline - self.clock - held.after_ms)
        else:
            lease.deadline, lease.ahead = self.clock + held.after_ms, held.ahead_ms
            lease.action, lease.reason = held.action, held.reason

    def _park(self, record: Record, parked: Parked) -> None:
        said = due = parked.due_ms
        if parked.delay_ms:
            said, due = record.at_ms + parked.delay_ms, self.clock + parked.delay_ms
        waiting = Waiting(due, parked.ahead_ms, parked.action)
        waiting.is_half = parked.action is Action.CHECK
        self.parked[ParkedRef(said, record.offset)] = waiting

    def _hold_parked(self, held: HeldParked, by_tracker: bool) -> None:
        waiting = self.parked.get(held.ref)
        if waiting is None or (waiting.lapse <= self.clock and not by_tracker):
            return
        if waiting.is_half and held.action is not Action.EXTEND:
            asks = held.action in (Action.CHECK, Action.BURY)
            if not (by_tracker and asks and waiting.action is Action.CHECK):
                return
        self.marked.discard(held.ref)
        if held.action is Action.CANCEL:
            del self.parked[held.ref]
        elif held.action is Action.EXTEND:
            waiting.due = max(waiting.due, self.clock + held.after_ms)
            waiting.ahead = min(waiting.ahead, waiting.due - self.clock - held.after_ms)
        else:
            waiting.due, waiting.ahead = self.clock + held.after_ms, held.ahead_ms
            waiting.action, waiting.reason = held.action, held.reason
            waiting.tries += 0 if waiting.is_half and held.action is Action.BURY else 1

    def _answer(self, answer: HalfAnswer) -> None:
        for ref in answer.halves:
            waiting = self.parked.get(ref)
            if waiting is None or not waiting.is_half or waiting.action is not Action.CHECK:
                continue
            newest = max(waiting.unknown, default=0)
            if answer.verdict is Check.ROLLBACK:
                del self.parked[ref]
                self.marked.discard(ref)
            elif answer.verdict is Check.COMMIT:
                waiting.action, waiting.due, waiting.ahead = Action.RELEASE, self.clock, 0
                self.marked.discard(ref)
            elif newest < answer.number <= waiting.tries:
                waiting.unknown[answer.number] = answer.reason

    def _forget(self, forget: Forget) -> None:
        """What was seen of a source counts as never seen; not if some of it is open."""
        for source in (ended.source for ended in forget.ended):
            is_open = any(message[0] == source for message in self.open)
            if self.epochs.get(source[:4]) == source.epoch and not is_open:
                del self.epochs[source[:4]]
                self.seen = {m for m in self.seen if m[0][:4] != source[:4]}
                self.offsets = {c: m for c, m in self.offsets.items() if m[0][0][:4] != source[:4]}

    def speaks(self, message: Message) -> tuple[ClaimId, Lease]:
        """The claim of a message that lapses last; of equal ones the highest."""
        return max(self.open[message].items(), key=lambda found: (found[1].lapse, found[0]))

    def decides(self, message: Message) -> Lease:
        """Whose action counts: of those who rejected it the highest claim, else who speaks."""
        claims = sorted(self.open[message].items())
        rejected = [lease for _, lease in claims if lease.action is Action.BURY]
        return rejected[-1] if rejected else self.speaks(message)[1]

    def attempt(self, message: Message) -> int:
        """The highest attempt begun under any of its claims."""
        return max(lease.attempt for lease in self.open[message].values())

    def overdue(self) -> dict[Message | ParkedRef, int]:
        """What should be emitted, and when it lapsed."""
        found: dict[Message | ParkedRef, int] = {}
        for message in self.open:
            lease = self.speaks(message)[1]
            if self._lapsed(lease) and message not in self.marked:
                found[message] = lease.lapse
        for ref, waiting in self.parked.items():
            if waiting.lapse <= self.clock and ref not in self.marked:
                found[ref] = waiting.lapse
        return found
