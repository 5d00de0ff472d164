"""Messages in someone's hands: whose they are, until when, and what is to be written of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from marq.core.markers import bits
from marq.core.markers.marker import Begun, Held
from marq.errors import DeliveryError, LeaseLost
from marq.kafka.client.answers import Answer
from marq.kafka.client.clock import CLOSED_MS, FORKED_MS
from marq.kafka.leasing.append_time import AppendTime
from marq.kafka.leasing.home import Home
from marq.kafka.leasing.live import LiveClaim

_NEVER = 1 << 62


class Lease(NamedTuple):
    """How messages are leased to whoever they are handed to."""

    lease_ms: int
    ahead_ms: int
    kept_alive: bool


class Handout:
    """Messages of one claim handed out together: one lease, one receipt for what settles
    together."""

    __slots__ = (
        "ahead_ms",
        "attempt",
        "begin",
        "begin_by_ms",
        "begun",
        "begun_sent",
        "begun_written",
        "claim",
        "clock",
        "desk",
        "dirty",
        "ended",
        "ended_written",
        "extends",
        "granted_ms",
        "held",
        "home",
        "kept_alive",
        "known",
        "lapse_ms",
        "last",
        "lease_ms",
        "leaving",
        "open",
        "origin",
        "receipt",
        "started",
        "wanted",
    )

    def __init__(
        self, home: Home, claim: LiveClaim, indexes: int, count: int, attempt: int
    ) -> None:
        self.home = home
        self.claim = claim
        self.desk = claim.desk
        self.clock = claim.desk.clock
        self.wanted: Any = None
        """The type payloads are decoded to."""
        self.attempt = attempt
        self.lapse_ms = _NEVER
        """When the lease is over. Reckoned from the hand-out until the log has told when it heard
        of it, so never later than the log's."""
        self.lease_ms = self.ahead_ms = 0
        self.kept_alive = False
        self.begun = indexes
        """What is still to be written as begun."""
        self.started: list[int] = []
        """What was begun one by one since."""
        self.begun_written = 0
        """How many of `started` are written."""
        self.begun_sent = False
        """Whether the log may know that any of it was begun."""
        self.known = -1
        """How many of them are known to be in the log; -1: not even `begun` is."""
        self.open = count
        self.ended: list[int] = []
        self.held: list[Held] = []
        self.dirty = False
        self.ended_written = 0
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
        self.extends: Handout | None = None
        """The handout whose lease it makes longer, until the log is known to have taken that."""
        self.granted_ms = 0
        """When the lease is over that the log gave it meanwhile."""
        self.origin: Handout | None = None
        """The handout it was part of, until the log is known to have taken begun of that one."""

    def end(self, index: int) -> Answer[None]:
        """Write down that the message is done.

        Without a lock, for this runs once a message. The order makes up for it: here append, then
        look at `dirty`, then at `receipt`; the flusher clears `dirty`, takes the receipt, then
        reads how much was appended. So what is appended is either in the record of the receipt
        returned, or an earlier one of the same handout.

        It takes CPython's lock for granted (the GIL): an append is whole, and what one thread
        writes first another one sees first. tests/unit/test_ack_interleavings.py goes through all
        orders.
        """
        self.ended.append(index)
        if not self.dirty:
            self.mark_dirty()
        return self.receipt or self._next_receipt()

    def hold(self, held: Held, leaves: bool) -> Answer[None]:
        """Put the message under an action; `leaves`: it is no longer this process's then."""
        with self.desk.lock:
            self.leaving += leaves
            self.held.append(held)
        if not self.dirty:
            self.mark_dirty()
        return self.receipt or self._next_receipt()

    def _next_receipt(self) -> Answer[None]:
        with self.desk.lock:
            if self.receipt is None:
                if self.last is not None and not self.unwritten:
                    return self.last  # the flusher was faster: it is in that record
                self.receipt = Answer(self.desk.waiting)
            return self.receipt

    def take(self) -> tuple[list[int], list[Held], int, Answer[None]]:
        """What has gathered since the last flush; the desk's lock is held. See `end`."""
        self.dirty = False
        receipt, self.receipt = self.receipt, None
        ended = self.ended[self.ended_written :]
        self.ended_written += len(ended)
        held, self.held = self.held, []
        leaving, self.leaving = self.leaving, 0
        self.home.settled += len(ended) + leaving
        receipt = receipt or Answer(self.desk.waiting)
        if ended or held:  # else whoever acked what was written before would wait for nothing
            self.last = receipt
        return ended, held, leaving, receipt

    @property
    def unwritten(self) -> int:
        """Messages that are settled, of which nothing is written yet."""
        return len(self.ended) - self.ended_written + len(self.held)

    def start(self, lease: Lease, lapse_ms: int) -> None:
        """They were waiting and are handed out: their lease starts, and is over then."""
        self.lapse_ms = lapse_ms
        with self.desk.lock:
            self.claim.unbegun -= self.open
            self._start(lease)

    def _start(self, lease: Lease) -> None:
        self.lease_ms, self.ahead_ms, self.kept_alive = lease
        self.claim.leased_ms = max(self.claim.leased_ms, self.lapse_ms)
        if self.kept_alive:
            self.claim.kept += 1
            self.desk.kept.add(self)
            self.desk.beat_within(self.lease_ms - self.ahead_ms)
        self.mark_dirty()

    def open_to(self, count: int) -> None:
        """So many more that wait may be begun one by one."""
        with self.desk.lock:
            self.open += count
            self.claim.unbegun -= count

    def put_back(self, count: int) -> None:
        """So many of them were not: they wait again."""
        with self.desk.lock:
            self.claim.unbegun += count
            self.leave(count)

    def start_one(self, index: int) -> None:
        """Begin one more of its messages; without a lock, as `end`."""
        self.started.append(index)
        if not self.dirty:
            self.mark_dirty()

    @property
    def begun_known(self) -> bool:
        """Whether the log took all begun in time: until then the pump lease counts."""
        if self.origin is not None and not self.origin.begun_known:
            return False
        return self.known >= len(self.started)

    def split(self, index: int, deadline_ms: int) -> Handout:
        """A handout of its own for one message, with a deadline at least this late."""
        with self.desk.lock:
            own = self._part(index)
            own.extends = self
            own.lapse_ms = max(self.lapse_ms, deadline_ms - self.ahead_ms)
            own._start(Lease(self.lease_ms, self.ahead_ms, self.kept_alive))
            self.leave(1)
        return own

    def _part(self, index: int) -> Handout:
        bit = self._unbegin(index)
        own = Handout(self.home, self.claim, bit, 1, self.attempt)
        own.wanted, own.begin_by_ms = self.wanted, self.begin_by_ms
        if not bit:
            own.known, own.begun_sent = 0, self.begun_sent
            own.origin = None if self.begun_known else self
        elif self.extends is not None:  # it waits for the log's word on its own longer lease
            self.origin, self.begun_sent, self.known = own, True, 0
        return own

    def _unbegin(self, index: int) -> int:
        """Let another handout write that it begun, if it is not written; the lock is held."""
        bit = self.begun & 1 << index
        self.begun &= ~bit
        if index in self.started[self.begun_written :]:
            self.started.remove(index)
            return 1 << index
        return bit

    def let_go(self) -> None:
        """One of its messages will not be settled here: it is kept from nobody any longer."""
        with self.desk.lock:
            self.leave(1)
            self.claim.leave(1)

    def take_back(self) -> None:
        """One of its messages waits here to be handed out again."""
        self.home.settled += 1
        with self.desk.lock:
            self.claim.unbegun += 1
            self.claim.keep()
            self.leave(1)

    def leave(self, count: int) -> None:
        """That many of its messages are no longer its own; the desk's lock is held."""
        self.open -= count
        # Only with the last one: a hold of what left before is reported later, with none to leave.
        if count and self.open == 0:
            self._let_lapse()

    def beaten(self, appended: AppendTime) -> None:
        """The log took a beat; see `LiveClaim.beaten`."""
        if appended.latest_ms < self.certain_ms:
            self._count_from(appended.earliest_ms)
        else:
            self.give_up()

    def begun_at(self, appended: AppendTime | None, started: int) -> None:
        """The log took begun, with so many of `started`, or never will."""
        if appended is None or appended.latest_ms >= self.begin_by():
            self.give_up()  # too late: the message may be on its way elsewhere
            return
        if self.known < 0 and self.lapse_ms:
            # After an outage this is long after the hand-out.
            self._count_from(appended.earliest_ms)
        self.known = max(self.known, started)

    def _count_from(self, at_ms: int) -> None:
        """The log counts the lease from that time, or a later one."""
        self.granted_ms = max(self.granted_ms, at_ms + self.lease_ms - self.ahead_ms)
        self.lapse_ms = max(self.lapse_ms, self.granted_ms)
        self.claim.leased_ms = max(self.claim.leased_ms, self.lapse_ms)

    def give_up(self) -> None:
        """The lease is lost for good: it is beaten no more."""
        self.lapse_ms = 0
        with self.desk.lock:
            self._let_lapse()

    def _let_lapse(self) -> None:
        if self.kept_alive:
            self.kept_alive = False
            self.desk.kept.discard(self)
            self.claim.kept -= 1

    def mark_dirty(self) -> None:
        """Have the flusher look at it; twice is harmless."""
        self.dirty = True
        self.desk.dirty.append(self)
        self.desk.wake()

    def begun_record(self, ended: int) -> Begun | None:
        """What of it is to be written as begun, without what has ended meanwhile."""
        started = self.started[self.begun_written :]
        self.begun_written += len(started)
        indexes = (self.begun | (as_mask(started) if started else 0)) & ~ended
        self.begun = 0
        if not indexes:
            return None
        self.begun_sent = True
        return Begun(indexes, self.lease_ms, self.attempt, self.kept_alive, self.ahead_ms)

    @classmethod
    def aside(cls, home: Home, claim: LiveClaim) -> Handout:
        """For a message that waited and is settled without being handed out."""
        with claim.desk.lock:
            claim.unbegun -= 1
        return cls(home, claim, 0, 1, 1)

    def lost(self, message_id: str) -> DeliveryError:
        if self.clock.recent_ms == FORKED_MS:
            return DeliveryError(
                f"message {message_id} was handed to the process that this one was forked from: "
                f"only that one can settle it",
                message_id=message_id,
            )
        if self.clock.recent_ms == CLOSED_MS:
            return DeliveryError(
                f"message {message_id} cannot be settled any more, for the broker was closed: it "
                f"is delivered again when its lease is over",
                message_id=message_id,
            )
        return LeaseLost(
            f"the lease on message {message_id} is over: it may be delivered again",
            message_id=message_id,
        )

    @property
    def certain_ms(self) -> int:
        """When the lease is over as far as the log is known to have given it."""
        if self.extends is None:
            return self.lapse_ms
        return min(self.lapse_ms, max(self.granted_ms, self.extends.certain_ms))

    def judge(self, appended: AppendTime | None) -> bool:
        """Whether the log took a record of it within the lease; the desk's lock is held."""
        in_time = appended is not None and appended.latest_ms < self._over_ms()
        if self.extends is not None:  # what is said first of it is that its lease is longer
            self._extended(appended, in_time)
        return in_time

    def _over_ms(self) -> int:
        if not self.begun_sent:  # acked before a lease had started: the claim's lease counts
            return self.begin_by()
        return self.certain_ms if self.begun_known else min(self.certain_ms, self.begin_by())

    def _extended(self, appended: AppendTime | None, in_time: bool) -> None:
        """The log took the longer lease, or too late, or never will."""
        certain_ms, self.extends = self.certain_ms, None
        if not in_time:
            self.lapse_ms = certain_ms if appended is None else 0
        if not self.lapse_ms:
            self._let_lapse()

    def begin_by(self) -> int:
        """By when begun must be in the log."""
        return self.claim.lapse_ms if self.begin_by_ms is None else self.begin_by_ms


def as_mask(indexes: list[int]) -> int:
    """The set of these (distinct) indexes; mostly they are one run, in whatever order."""
    low, high = min(indexes), max(indexes)
    if high - low + 1 == len(indexes):
        return bits.span(low, len(indexes))
    return bits.of(indexes)
