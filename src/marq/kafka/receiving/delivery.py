"""A delivery from Kafka: one small object over librdkafka's message."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar, cast

from msgspec import Struct

from marq.core.fate import settling
from marq.core.messages import payload
from marq.core.messages.stored import Stored
from marq.kafka.client.record import headers, stored
from marq.kafka.leasing.handout import Handout
from marq.kafka.receiving import settle
from marq.message import UNDECODED, Ack, Delivery, GiveBack, Reject, Retry, Verdict, moment
from marq.receipt import Receipt

T = TypeVar("T")


class KafkaDelivery(Delivery[T], Struct, gc=False, eq=False):
    """Refers to its message and handout; everything else is looked up when asked for.

    Made once a message: four references, and nothing the garbage collector has to look at (with
    it, collections took a third of a fast consumer's time).
    """

    _handout: Handout
    _index: int
    """Its index in the claim; below 0 (inverted) once it is settled."""
    _message: Any
    _decoded: Any = UNDECODED

    @property
    def queue(self) -> str:
        return self._handout.home.queue

    @property
    def _stored(self) -> Stored:
        return stored(self._message)

    @property
    def payload(self) -> T:
        wanted = self._handout.wanted
        if wanted is None and self._message.headers() is None:
            return cast(T, self._message.value() or b"")
        if self._decoded is UNDECODED:
            self._decoded = self.payload_as(wanted)
        return cast(T, self._decoded)

    def payload_as(self, wanted: Any) -> Any:
        if wanted is bytes:
            return self._message.value() or b""
        content_type = payload.content_type(headers(self._message))
        return payload.decode(self._message.value() or b"", content_type, wanted)

    @property
    def attempt(self) -> int:
        return self._handout.attempt

    @property
    def deadline(self) -> datetime:
        return moment(self._handout.lapse_ms + self._handout.ahead_ms)

    @property
    def settled(self) -> bool:
        return self._index < 0

    def ack(self) -> Receipt[None]:
        index, handout = self._index, self._handout
        if index < 0:
            self._refuse_if_settled()
        if handout.lapse_ms <= handout.clock.recent_ms:
            raise handout.lost(self.message_id)
        self._index = ~index
        return handout.end(index)

    def let_go(self) -> None:
        if self._index >= 0:
            self._index = ~self._index
            self._handout.let_go()

    def _extend(self, duration_ms: int) -> Receipt[None]:
        self._refuse_if_lost()
        index, handout = self._index, self._handout
        self._handout, receipt = settle.extend(handout, index, duration_ms)
        return receipt

    def _settle(self, verdict: Verdict) -> Receipt[None]:
        self._refuse_if_settled()
        self._refuse_if_lost()
        index, self._index = self._index, ~self._index
        try:
            return self._settle_by(verdict, self._handout, index)
        except BaseException:  # nobody settles it any more: it comes back by itself
            self._handout.let_go()
            raise

    def _settle_by(self, verdict: Verdict, handout: Handout, index: int) -> Receipt[None]:
        match verdict:
            case Ack():
                return handout.end(index)
            case Retry():
                return settle.retry(handout, index, self._message, verdict)
            case Reject(reason=reason):
                held = settling.rejected(handout.claim.claim.id, 1 << index, reason)
                return handout.hold(held, leaves=True)
            case GiveBack():
                return settle.give_back(handout, index, self._message)

    def _refuse_if_lost(self) -> None:
        if self._handout.lapse_ms <= self._handout.clock.now_ms():
            raise self._handout.lost(self.message_id)
