"""Claims of this process and what it handed out of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from marq.core import bits
from marq.core.marker import Begun, Claim, Held
from marq.errors import LeaseLost
from marq.kafka.answers import Answer

if TYPE_CHECKING:
    from marq.kafka.inbox import KafkaInbox
    from marq.kafka.lane import Lane

_NEVER = 1 << 62


class LiveClaim:
    """A claim with messages that this process has and that have not ended."""

    __slots__ = (
        "acknowledged",
        "claim",
        "end",
        "failed",
        "given_up",
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
        self.acknowledged = self.failed = self.given_up = False
        self.lapse_ms = 0
        """Until when what is not begun is ours; 0 until the claim is acknowledged."""
        self.left = self.unbegun = len(messages)
        self.kept = 0
        """Handouts of it that are kept alive."""
        self.size_bytes = 0

    @property
    def needs_beats(self) -> bool:
        return (self.unbegun > 0 and not self.given_up) or self.kept > 0

    def beaten(self, at_ms: int) -> None:
        """The log took a beat at that time. One that came too late is the last: after a silence
        the log gives leases more time than we reckon with, and what nobody here will settle must
        not be kept from others."""
        if at_ms < self.lapse_ms:
            self.lapse_ms = max(self.lapse_ms, at_ms + self.claim.lease_ms)
        else:
            self.given_up = True

    def leave(self, count: int, unbegun: int = 0) -> None:
        """That many of its messages are no longer this process's; the lane's lock is held."""
        self.left -= count
        self.unbegun -= unbegun
        if self.left == 0:
            self.lane.claims.pop(self.claim.id.sequence, None)


class Handout:
    """Messages of one claim handed out together: one lease, one receipt for what settles
    together."""

    __slots__ = (
        "ahead_ms",
        "attempt",
        "begin",
        "begin_by_ms",
        "begun",
        "begun_taken",
        "claim",
        "clock",
        "dirty",
        "ended",
        "held",
        "inbox",
        "kept_alive",
        "known",
        "lane",
        "lapse_ms",
        "last",
        "lease_ms",
        "leaving",
        "open",
        "receipt",
        "started",
        "taken",
        "wanted",
    )

    def __init__(
        self, inbox: KafkaInbox, claim: LiveClaim, indexes: int, count: int, attempt: int
    ) -> None:
        self.inbox = inbox
        self.claim = claim
        self.lane = claim.lane
        self.clock = claim.lane.clock
        self.wanted: Any = None
        """The type payloads are decoded to."""
        self.attempt = attempt
        self.lapse_ms = _NEVER
        """When the lease is over; reckoned from the hand-out, so never later than the log's."""
        self.lease_ms = self.ahead_ms = 0
        self.kept_alive = False
        self.begun = indexes
        """What is still to be written as begun."""
        self.started: list[int] = []
        """What was begun one by one since."""
        self.begun_taken = 0
        """How many of `started` are written."""
        self.known = -1
        """How many of them are known to be in the log; -1: not even `begun` is."""
        self.open = count
        self.ended: list[int] = []
        self.held: list[Held] = []
        self.dirty = False
        self.taken = 0
        """How many of `ended` are written."""
        self.receipt: Answer[None] | None = None
        self.last: Answer[None] | None = None
        """The receipt of what was written last."""
        self.leaving = 0
        """Held messages that are the tracker's from now on."""
        self.begin: Answer[None] | None = None
        """Filled when begun is known, where someone waits for it."""
        self.begin_by_ms: int | None = None
        """When begun would come too late; None: with the pump lease."""

    def end(self, index: int) -> Answer[None]:
        """Write down that the message is done.

        Without a lock, for this runs once a message. The order makes up for it: here append, then
        look at `dirty`, then at `receipt`; the flusher clears `dirty`, takes the receipt, then
        reads how much was appended. So what is appended is either in the record of the receipt
        returned, or an earlier one of the same handout.
        """
        self.ended.append(index)
        if not self.dirty:
            self.mark_dirty()
        return self.receipt or self._next_receipt()

    def hold(self, held: Held, leaves: bool) -> Answer[None]:
        """Put the message under an action; `leaves`: it is no longer this process's then."""
        with self.lane.lock:
            self.leaving += leaves
            self.held.append(held)
        if not self.dirty:
            self.mark_dirty()
        return self.receipt or self._next_receipt()

    def _next_receipt(self) -> Answer[None]:
        with self.lane.lock:
            if self.receipt is None:
                if len(self.ended) == self.taken and not self.held and self.last is not None:
                    return self.last  # the flusher was faster: it is in that record
                self.receipt = Answer(self.lane.waiting)
            return self.receipt

    def take(self) -> tuple[list[int], list[Held], int, Answer[None]]:
        """What has gathered since the last flush; the lane's lock is held. See `end`."""
        self.dirty = False
        receipt, self.receipt = self.receipt, None
        ended = self.ended[self.taken :]
        self.taken += len(ended)
        held, self.held = self.held, []
        leaving, self.leaving = self.leaving, 0
        self.last = receipt or Answer(self.lane.waiting)
        return ended, held, leaving, self.last

    def start(self, lease_ms: int, ahead_ms: int, kept_alive: bool) -> None:
        """Start the lease; the lane's lock is held."""
        self.lease_ms, self.ahead_ms, self.kept_alive = lease_ms, ahead_ms, kept_alive
        if kept_alive:
            self.claim.kept += 1
            self.lane.kept.add(self)
            self.lane.beat_within(lease_ms - ahead_ms)
        self.mark_dirty()

    def start_one(self, index: int) -> None:
        """Begin one more of its messages; without a lock, as `end`."""
        self.started.append(index)
        if not self.dirty:
            self.mark_dirty()

    @property
    def begun_known(self) -> bool:
        """Whether the log took all begun in time: until then the pump lease counts."""
        return self.known >= len(self.started)

    def split(self, index: int, deadline_ms: int) -> Handout:
        """A handout of its own for one message, with a deadline at least this late."""
        lapse_ms = max(self.lapse_ms, deadline_ms - self.ahead_ms)
        with self.lane.lock:
            bit = self._unbegin(index)
            own = Handout(self.inbox, self.claim, bit, 1, self.attempt)
            own.lapse_ms, own.wanted = lapse_ms, self.wanted
            own.known, own.begin_by_ms = -1 if bit else 0, self.begin_by_ms
            own.start(self.lease_ms, self.ahead_ms, self.kept_alive)
            self.leave(1)
        return own

    def _unbegin(self, index: int) -> int:
        """Let another handout write that it begun, if it is not written; the lock is held."""
        bit = self.begun & 1 << index
        self.begun &= ~bit
        if index in self.started[self.begun_taken :]:
            self.started.remove(index)
            return 1 << index
        return bit

    def leave(self, count: int) -> None:
        """That many of its messages are no longer its own; the lane's lock is held."""
        self.open -= count
        # Only with the last one: a hold of what left before is reported later, with none to leave.
        if count and self.open == 0:
            self._let_lapse()

    def beaten(self, at_ms: int) -> None:
        """The log took a beat at that time; see `LiveClaim.beaten`."""
        if at_ms < self.lapse_ms:
            self.lapse_ms = max(self.lapse_ms, at_ms + self.lease_ms - self.ahead_ms)
        else:
            self.give_up()

    def give_up(self) -> None:
        """The lease is lost for good: it is beaten no more."""
        self.lapse_ms = 0
        with self.lane.lock:
            self._let_lapse()

    def _let_lapse(self) -> None:
        if self.kept_alive:
            self.kept_alive = False
            self.lane.kept.discard(self)
            self.claim.kept -= 1

    def mark_dirty(self) -> None:
        """Have the flusher look at it; twice is harmless."""
        self.dirty = True
        self.lane.dirty.append(self)
        self.lane.wake()

    def begun_record(self, ended: int) -> Begun | None:
        """What of it is to be written as begun, without what has ended meanwhile."""
        started = self.started[self.begun_taken :]
        self.begun_taken += len(started)
        indexes = (self.begun | (as_mask(started) if started else 0)) & ~ended
        self.begun = 0
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
