"""A delivery of the memory broker: an entry in its fold."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

from marq.core.fate import settling
from marq.core.markers.marker import Action, Held, Hold, Part
from marq.core.messages.header import Past
from marq.core.messages.stored import Stored
from marq.errors import LeaseLost
from marq.memory.reader import MemoryTicket, Reader
from marq.memory.shared import Shared
from marq.message import UNDECODED, Ack, Delivery, GiveBack, Reject, Retry, Verdict, moment
from marq.receipt import Answered, Receipt

T = TypeVar("T")


class MemoryDelivery(Delivery[T]):
    """A ticket that was handed out."""

    __slots__ = ("_deadline_ms", "_decoded", "_reader", "_settled", "_shared", "_ticket", "_wanted")

    def __init__(self, shared: Shared, reader: Reader, ticket: MemoryTicket, wanted: Any) -> None:
        self._shared = shared
        self._reader = reader
        self._ticket = ticket
        self._wanted = wanted
        self._decoded: Any = UNDECODED
        self._deadline_ms = 0
        self._settled = False

    @property
    def queue(self) -> str:
        return self._reader.queue

    @property
    def _stored(self) -> Stored:
        return self._ticket.stored

    @property
    def payload(self) -> T:
        if self._decoded is UNDECODED:
            self._decoded = self.payload_as(self._wanted)
        found: T = self._decoded
        return found

    @property
    def attempt(self) -> int:
        return self._ticket.attempt

    @property
    def settled(self) -> bool:
        return self._settled

    @property
    def deadline(self) -> datetime:
        part = self._part()
        if part:
            self._deadline_ms = part.deadline_ms
        return moment(self._deadline_ms)

    def _settle(self, verdict: Verdict) -> Receipt[None]:
        self._refuse_if_settled()
        with self._shared.caught_up():
            self._refuse_if_lost()
            match verdict:
                case Ack():
                    self._reader.end(self._ticket)
                case Retry():
                    self._retry(verdict)
                case Reject(reason=reason):
                    self._hold(settling.rejected(self._ticket.claim, self._ticket.bit, reason))
                case GiveBack():
                    self._reader.give_back(self._ticket)
            self._settled = True
        return Answered(None)

    def let_go(self) -> None:
        with self._shared.caught_up():
            part = self._part()
            if not self._settled and part is not None:
                left_ms = part.deadline_ms - self._shared.log.now_ms
                claim, bit = self._ticket.claim, self._ticket.bit
                self._hold(Held(claim, bit, Action.REDELIVER, max(0, left_ms), reason="let go"))
            self._settled = True

    def _extend(self, duration_ms: int) -> Receipt[None]:
        with self._shared.caught_up():
            self._refuse_if_lost()
            self._hold(settling.extended(self._ticket.claim, self._ticket.bit, duration_ms))
        return Answered(None)

    def _retry(self, retry: Retry) -> None:
        definition, ticket = self._shared.definition(self._reader.queue), self._ticket
        after_ms = retry.after_ms
        if after_ms is None:
            after_ms = settling.backoff(ticket.attempt, definition, self._shared.random.random())
        about = (ticket.claim, ticket.bit)
        if not settling.stays(after_ms, ticket.attempt, definition):
            self._hold(settling.retried(*about, ticket.attempt, after_ms, retry.reason, definition))
            return
        held = settling.kept(*about, after_ms, retry.reason, definition)
        now_ms = self._shared.log.now_ms
        self._hold(held)
        past = Past(ticket.attempt, now_ms, f"{ticket.claim.worker:016x}", retry.reason)
        self._reader.hand_out_again(ticket, now_ms + after_ms, now_ms + held.after_ms, past)

    def _hold(self, held: Held) -> None:
        self._shared.tracker.write(Hold((held,)))

    def _part(self) -> Part | None:
        """The open entry; None if it has ended."""
        claim = self._shared.tracker.markers.claims.get(self._ticket.claim)
        bit = self._ticket.bit
        return next((p for p in claim.parts if p.indexes & bit), None) if claim else None

    def _refuse_if_lost(self) -> None:
        part = self._part()
        if part is None or self._shared.tracker.markers.lapsed(part):
            raise LeaseLost(
                f"the lease on message {self.message_id} is over: it may be delivered again",
                message_id=self.message_id,
            )
