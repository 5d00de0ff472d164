"""Handing messages of the memory broker out, and settling them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from marq.backend import Handing
from marq.core import settling
from marq.core.marker import Held, Hold, Part
from marq.errors import LeaseLost
from marq.message import Ack, Delivery, GiveBack, Reject, Retry, Verdict
from marq.receipt import Answered, Receipt
from marq.testing.group import Group, Ticket

if TYPE_CHECKING:
    from marq.testing.memory import Memory

_LOOK_AGAIN_S = 3_600.0


class MemoryInbox:
    """One consumer of a queue."""

    def __init__(self, memory: Memory, queue: str) -> None:
        self._memory = memory
        self._queue = queue
        self._closed = False

    def take(self, limit: int, wait_s: float, handing: Handing) -> list[Delivery[Any]]:
        until = time.monotonic() + wait_s
        with self._memory.changed:
            while not self._closed:
                found = self._take_now(limit, handing)
                left_s = until - time.monotonic()
                if found or left_s <= 0:
                    return found
                self._memory.changed.wait(min(left_s, self._next_s()))
        return []

    def _take_now(self, limit: int, handing: Handing) -> list[Delivery[Any]]:
        memory = self._memory
        memory.tracker.catch_up(memory.clock.now_ms())
        definition = memory.definition(self._queue)
        if definition.paused:
            return []
        lease_ms = definition.lease_ms if handing.lease_ms is None else handing.lease_ms
        group = memory.group(self._queue)
        tickets = group.hand_out(limit, memory.log.now_ms, definition, lease_ms, handing.kept_alive)
        return [
            Delivery(self._queue, t.stored, MemoryLease(memory, group, t), handing.wanted)
            for t in tickets
        ]

    def _next_s(self) -> float:
        """How long until something happens by itself; a frozen clock only moves with a notice."""
        memory = self._memory
        if not memory.clock.running:
            return _LOOK_AGAIN_S
        moments = (memory.tracker.next_ms(), memory.group(self._queue).next_due_ms())
        at_ms = min((at_ms for at_ms in moments if at_ms is not None), default=None)
        if at_ms is None:
            return _LOOK_AGAIN_S
        return max(0.001, (at_ms - memory.clock.now_ms()) / 1_000)

    def close(self) -> None:
        with self._memory.changed:
            self._closed = True
            self._memory.changed.notify_all()


class MemoryLease:
    """A delivered message's entry in the fold."""

    __slots__ = ("_deadline_ms", "_group", "_memory", "_ticket")

    def __init__(self, memory: Memory, group: Group, ticket: Ticket) -> None:
        self._memory = memory
        self._group = group
        self._ticket = ticket
        self._deadline_ms = 0

    def deadline_ms(self) -> int:
        part = self._part()
        if part:
            self._deadline_ms = part.deadline_ms
        return self._deadline_ms

    def settle(self, verdict: Verdict) -> Receipt[None]:
        with self._memory.caught_up():
            self._refuse_if_lost()
            match verdict:
                case Ack():
                    self._group.end(self._ticket)
                case Retry():
                    self._hold(self._retried(verdict))
                case Reject(reason=reason):
                    self._hold(settling.rejected(self._ticket.claim, self._ticket.bit, reason))
                case GiveBack():
                    self._group.give_back(self._ticket)
        return Answered(None)

    def extend(self, duration_ms: int) -> Receipt[None]:
        with self._memory.caught_up():
            self._refuse_if_lost()
            self._hold(settling.extended(self._ticket.claim, self._ticket.bit, duration_ms))
        return Answered(None)

    def _retried(self, retry: Retry) -> Held:
        definition = self._memory.definition(self._group.queue)
        attempt, after_ms = self._ticket.attempt, retry.after_ms
        if after_ms is None:
            after_ms = settling.backoff(attempt, definition, self._memory.random.random())
        return settling.retried(
            self._ticket.claim, self._ticket.bit, attempt, after_ms, retry.reason, definition
        )

    def _hold(self, held: Held) -> None:
        self._memory.tracker.write(Hold((held,)))

    def _part(self) -> Part | None:
        """The open entry; None if it has ended."""
        claim = self._memory.tracker.markers.claims.get(self._ticket.claim)
        bit = self._ticket.bit
        return next((p for p in claim.parts if p.indexes & bit), None) if claim else None

    def _refuse_if_lost(self) -> None:
        part = self._part()
        if part is None or self._memory.tracker.markers.lapsed(part):
            message_id = self._ticket.stored.message_id()
            raise LeaseLost(
                f"the lease on message {message_id} is over: it may be delivered again",
                message_id=message_id,
            )
