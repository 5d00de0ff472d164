"""Claims of this process and what it handed out of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from marq.core import bits
from marq.core.marker import Begun, Claim, Held
from marq.errors import LeaseLost
from marq.kafka.answers import Answer

if TYPE_CHECKING:
    from marq.kafka.markers import Lane


class LiveClaim:
    """A claim with messages that this process has and that have not ended."""

    __slots__ = (
        "acknowledged",
        "claim",
        "end",
        "failed",
        "kept",
        "lane",
        "lapse_ms",
        "left",
        "messages",
        "partition",
        "size_bytes",
        "start",
        "unbegun",
    )

    def __init__(self, claim: Claim, messages: list[Any], end: int, lane: Lane) -> None:
        self.claim = claim
        self.messages = messages
        self.partition = claim.source.partition
        self.start = claim.start
        self.end = end
        self.lane = lane
        self.acknowledged = self.failed = False
        self.lapse_ms = 0
        """Until when what is not begun is ours; 0 until the claim is acknowledged."""
        self.left = self.unbegun = len(messages)
        self.kept = 0
        """Handouts of it that are kept alive."""
        self.size_bytes = 0

    @property
    def needs_beats(self) -> bool:
        return self.unbegun > 0 or self.kept > 0


class Handout:
    """Messages of one claim handed out together: one lease, one receipt for what settles
    together."""

    __slots__ = (
        "ahead_ms",
        "attempt",
        "begin",
        "begin_by_ms",
        "begun",
        "begun_known",
        "claim",
        "dirty",
        "ended",
        "held",
        "kept_alive",
        "lane",
        "lapse_ms",
        "lease_ms",
        "leaving",
        "open",
        "receipt",
    )

    def __init__(
        self, claim: LiveClaim, indexes: int, count: int, attempt: int, lapse_ms: int
    ) -> None:
        self.claim = claim
        self.lane = claim.lane
        self.attempt = attempt
        self.lapse_ms = lapse_ms
        """When the lease is over; reckoned from the hand-out, so never later than the log's."""
        self.lease_ms = self.ahead_ms = 0
        self.kept_alive = False
        self.begun = indexes
        """What is still to be written as begun."""
        self.begun_known = False
        """Whether the log took the begun in time: until then the pump lease counts."""
        self.open = count
        self.ended: list[int] = []
        self.held: list[Held] = []
        self.dirty = False
        self.receipt: Answer[None] = Answer(claim.lane.waiting)
        self.leaving = 0
        """Held messages that are the tracker's from now on."""
        self.begin: Answer[None] | None = None
        """Filled when begun is known, where someone waits for it."""
        self.begin_by_ms: int | None = None
        """When begun would come too late; None: with the pump lease."""

    def end(self, index: int) -> Answer[None]:
        """Write down that the message is done."""
        lane = self.lane
        with lane.lock:
            self.ended.append(index)
            if not self.dirty:
                self._mark_dirty()
            return self.receipt

    def hold(self, held: Held, leaves: bool) -> Answer[None]:
        """Put the message under an action; `leaves`: it is no longer this process's then."""
        with self.lane.lock:
            self.held.append(held)
            self.leaving += leaves
            if not self.dirty:
                self._mark_dirty()
            return self.receipt

    def start(self, lease_ms: int, ahead_ms: int, kept_alive: bool) -> None:
        """Start the lease; the lane's lock is held."""
        self.lease_ms, self.ahead_ms, self.kept_alive = lease_ms, ahead_ms, kept_alive
        if kept_alive:
            self.claim.kept += 1
            self.lane.kept.add(self)
        self._mark_dirty()

    def split(self, index: int, deadline_ms: int) -> Handout:
        """A handout of its own for one message, with a deadline at least this late."""
        lapse_ms = max(self.lapse_ms, deadline_ms - self.ahead_ms)
        with self.lane.lock:
            bit = self.begun & 1 << index
            self.begun &= ~bit
            own = Handout(self.claim, bit, 1, self.attempt, lapse_ms)
            own.begun_known, own.begin_by_ms = self.begun_known or not bit, self.begin_by_ms
            own.start(self.lease_ms, self.ahead_ms, self.kept_alive)
            self.leave(1)
        return own

    def leave(self, count: int) -> None:
        """That many of its messages are no longer its own; the lane's lock is held."""
        self.open -= count
        if self.open == 0 and self.kept_alive:
            self.lane.kept.discard(self)
            self.claim.kept -= 1

    def _mark_dirty(self) -> None:
        self.dirty = True
        self.lane.dirty.append(self)
        if len(self.lane.dirty) == 1:
            self.lane.wake()

    def begun_record(self, ended: int) -> Begun | None:
        """What of it is to be written as begun, without what has ended meanwhile."""
        indexes, self.begun = self.begun & ~ended, 0
        if not indexes:
            return None
        return Begun(indexes, self.lease_ms, self.attempt, self.kept_alive, self.ahead_ms)

    def lost(self, message_id: str) -> LeaseLost:
        return LeaseLost(
            f"the lease on message {message_id} is over: it may be delivered again",
            message_id=message_id,
        )

    def judge(self, at_ms: int) -> bool:
        """Whether a record appended at that time was within the lease."""
        return at_ms < (self.lapse_ms if self.begun_known else min(self.lapse_ms, self.begin_by()))

    def begin_by(self) -> int:
        """By when begun must be in the log."""
        return self.claim.lapse_ms if self.begin_by_ms is None else self.begin_by_ms


def as_mask(indexes: list[int]) -> int:
    """The set of these (distinct) indexes; mostly they are one run, in whatever order."""
    low, high = min(indexes), max(indexes)
    if high - low + 1 == len(indexes):
        return bits.span(low, len(indexes))
    return bits.of(indexes)
