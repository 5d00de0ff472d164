"""What a user holds in the hand: what was sent, what was delivered, what died."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from marq.core.duration import Duration, milliseconds
from marq.core.fate import redelivery
from marq.core.markers.reason import cleaned
from marq.core.messages import payload
from marq.core.messages.header import Past
from marq.core.messages.header import moment as moment
from marq.core.messages.stored import Stored
from marq.errors import AlreadySettled, PayloadError
from marq.receipt import Receipt

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that is in the log."""

    message_id: str
    topic: str
    partition: int
    offset: int
    due: datetime | None = None
    """When it may be handed out, if it was delayed."""


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of a queue, about a second old."""

    ready: int
    in_flight: int
    delayed: int
    dead: int
    oldest_age: float
    """Seconds since the oldest message that is neither acked nor dead was sent; 0: none is."""
    halves: int = 0
    """Half messages that are not decided: they are messages only once they are committed."""


@dataclass(frozen=True, slots=True)
class Ack:
    """Done."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Deliver it again after a while; None: after the queue's backoff."""

    after_ms: int | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Reject:
    """Make it a dead letter."""

    reason: str


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Nothing was done about it: deliver it to someone else, no attempt counted."""


Verdict = Ack | Retry | Reject | GiveBack


class FromLog:
    """A message as the log has it: what deliveries and dead letters have in common."""

    __slots__ = ()

    @property
    def _stored(self) -> Stored:
        raise NotImplementedError

    @property
    def raw(self) -> bytes:
        """The payload's bytes as they were sent."""
        return self._stored.value or b""

    @property
    def key(self) -> bytes | None:
        return self._stored.key

    @property
    def headers(self) -> Mapping[str, bytes | None]:
        """The sender's headers; of equal names the last."""
        return dict(self._stored.user_headers())

    @property
    def message_id(self) -> str:
        """The id the sender gave, else the place it was first sent to; the same in every copy."""
        return self._stored.message_id()

    @property
    def sent_at(self) -> datetime:
        return moment(self._stored.meta().sent_ms or self._stored.at_ms)

    def payload_as(self, wanted: Any) -> Any:
        """The payload as the type wanted; `PayloadError` if it is not one."""
        return payload.decode(self.raw, payload.content_type(self._stored.user_headers()), wanted)


class Delivery(FromLog, Generic[T]):
    """One handing-over of a message. Settle it once: ack, retry or reject."""

    __slots__ = ()

    @property
    def queue(self) -> str:
        """The queue's name."""
        raise NotImplementedError

    @property
    def payload(self) -> T:
        """The payload as its content type says, or as the queue's type; `PayloadError` if not."""
        raise NotImplementedError

    @property
    def attempt(self) -> int:
        """Which attempt this delivery is, from 1."""
        return self._stored.meta().attempt

    @property
    def deadline(self) -> datetime:
        """When the lease is over, by the log's clock."""
        raise NotImplementedError

    @property
    def settled(self) -> bool:
        """Whether it was acked, retried or rejected."""
        raise NotImplementedError

    def ack(self) -> Receipt[None]:
        """Done: it is never delivered again."""
        return self._settle(Ack())

    def retry(self, after: Duration | None = "0s", reason: str = "") -> Receipt[None]:
        """Deliver it again after a while; counts as an attempt.

        None: after the queue's backoff, as an exception in a handler does.
        """
        after_ms = None if after is None else milliseconds(after, "after")
        return self._settle(Retry(after_ms, cleaned(str(reason))))

    def reject(self, reason: str = "") -> Receipt[None]:
        """Make it a dead letter now."""
        return self._settle(Reject(cleaned(str(reason))))

    def give_back(self) -> Receipt[None]:
        """Let someone else have it at once; no attempt is counted."""
        return self._settle(GiveBack())

    def let_go(self) -> None:
        """Do nothing more about it: it comes back when its lease is over, which nobody renews."""
        raise NotImplementedError

    def extend(self, duration: Duration) -> Receipt[None]:
        """Make the lease last at least that long from now."""
        duration_ms = milliseconds(duration, "duration")
        self._refuse_if_settled()
        return self._extend(duration_ms)

    def _settle(self, verdict: Verdict) -> Receipt[None]:
        """Write the verdict; `LeaseLost` if it is plainly too late."""
        raise NotImplementedError

    def _extend(self, duration_ms: int) -> Receipt[None]:
        raise NotImplementedError

    def _refuse_if_settled(self) -> None:
        if self.settled:
            raise AlreadySettled(
                f"message {self.message_id} was acked, retried or rejected before: "
                f"a delivery is settled once",
                message_id=self.message_id,
            )

    def __repr__(self) -> str:
        return f"<Delivery {self.message_id} of {self.queue}, attempt {self.attempt}>"


UNDECODED: Any = object()
"""In the place of a payload that nobody has asked for yet."""


class DeadLetter(FromLog):
    """A message that could not be delivered, with what happened to it."""

    __slots__ = ("_record",)

    def __init__(self, record: Stored) -> None:
        self._record = record

    @property
    def _stored(self) -> Stored:
        return self._record

    @property
    def payload(self) -> Any:
        """The payload as it was sent; its bytes where they cannot be decoded."""
        try:
            return self.payload_as(None)
        except PayloadError:
            return self.raw

    @property
    def queue(self) -> str:
        """The queue it was sent to."""
        return redelivery.home_of(self._stored)

    @property
    def reason(self) -> str:
        return redelivery.reason_of(self._stored)

    @property
    def attempts(self) -> int:
        return redelivery.attempts_of(self._stored)

    @property
    def history(self) -> tuple[Past, ...]:
        """The last attempts: which, when, by whom, why it failed."""
        return self._stored.meta().history

    @property
    def died_at(self) -> datetime:
        return moment(self._stored.at_ms)

    def __repr__(self) -> str:
        return f"<DeadLetter {self.message_id} of {self.queue}: {self.reason}>"
