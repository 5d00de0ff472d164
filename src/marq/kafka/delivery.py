"""A delivery from Kafka: one small object over librdkafka's message."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from marq.core import settling
from marq.core.duration import Duration, milliseconds
from marq.core.stored import Stored
from marq.kafka.live import Handout
from marq.message import Ack, Delivery, GiveBack, Reject, Retry, Verdict, moment
from marq.receipt import Receipt

if TYPE_CHECKING:
    from marq.kafka.inbox import KafkaInbox

T = TypeVar("T")


class KafkaDelivery(Delivery[T]):
    """Refers to its message and handout; everything else is looked up when asked for."""

    __slots__ = ("_handout", "_inbox", "_index", "_message")

    def __init__(
        self, inbox: KafkaInbox, handout: Handout, index: int, message: Any, wanted: Any
    ) -> None:
        self._inbox = inbox
        self._handout = handout
        self._index = index
        self._message = message
        self._wanted = wanted
        self._decoded = _UNDECODED
        self._settled = False

    @property
    def queue(self) -> str:  # type: ignore[override]
        return self._inbox.queue

    @property
    def _stored(self) -> Stored:  # type: ignore[override]
        return stored(self._message)

    @property
    def payload(self) -> T:
        if self._decoded is _UNDECODED:
            if self._wanted is None and self._message.headers() is None:
                self._decoded = self._message.value() or b""
            else:
                self._decoded = self.payload_as(self._wanted)
        found: T = self._decoded
        return found

    @property
    def attempt(self) -> int:
        return self._handout.attempt

    @property
    def deadline(self) -> datetime:
        return moment(self._handout.lapse_ms + self._handout.ahead_ms)

    def ack(self) -> Receipt[None]:
        if self._settled:
            self._refuse_if_settled()
        handout = self._handout
        if handout.lapse_ms <= handout.lane.now_ms():
            raise handout.lost(self.message_id)
        self._settled = True
        return handout.end(self._index)

    def extend(self, duration: Duration) -> Receipt[None]:
        duration_ms = milliseconds(duration, "duration")
        self._refuse_if_settled()
        self._refuse_if_lost()
        return self._inbox.extend(self, duration_ms)

    def _settle(self, verdict: Verdict) -> Receipt[None]:
        self._refuse_if_settled()
        self._refuse_if_lost()
        self._settled = True
        match verdict:
            case Ack():
                return self._handout.end(self._index)
            case Retry():
                return self._inbox.retry(self, verdict)
            case Reject(reason=reason):
                held = settling.rejected(self._claim, 1 << self._index, reason)
                return self._handout.hold(held, leaves=True)
            case GiveBack():
                return self._inbox.give_back(self)

    @property
    def _claim(self) -> Any:
        return self._handout.claim.claim.id

    def _refuse_if_lost(self) -> None:
        if self._handout.lapse_ms <= self._handout.lane.now_ms():
            raise self._handout.lost(self.message_id)


_UNDECODED: Any = object()


def stored(message: Any) -> Stored:
    """The message as a value."""
    return Stored(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )
