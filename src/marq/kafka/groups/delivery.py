"""One handing-over of a message of an ordered group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Protocol

from marq.core.duration import Duration, milliseconds
from marq.core.messages import payload
from marq.core.messages.stored import Stored
from marq.groups.output import Output
from marq.kafka.client.record import stored
from marq.message import moment


class Tenant(Protocol):
    """Who has the partition: where a delivery's verdict goes."""

    partition: int
    fence: int

    def ack(self, delivery: GroupDelivery) -> None: ...

    def double_ack(self, delivery: GroupDelivery, outputs: Iterable[Output]) -> None: ...

    def nak(self, delivery: GroupDelivery, delay_ms: int, reason: str) -> None: ...

    def in_progress(self, delivery: GroupDelivery) -> None: ...

    def term(self, delivery: GroupDelivery, reason: str) -> None: ...


class GroupDelivery:
    """A message in the hands of its key's owner. Settle it: ack, nak or term."""

    __slots__ = (
        "_decoded",
        "_message",
        "_stored",
        "_tenant",
        "attempt",
        "deadline_s",
        "offset",
        "settled",
    )

    def __init__(self, tenant: Tenant, message: Any, attempt: int) -> None:
        self._tenant = tenant
        self._message = message
        self._stored: Stored | None = None
        self._decoded: Any = _UNDECODED
        self.attempt = attempt
        """Which delivery of the message this is, from 1."""
        self.offset: int = message.offset()
        """Its place in the group's partition: what it is acked as, once."""
        self.settled = False
        self.deadline_s = 0.0

    @property
    def stored(self) -> Stored:
        """The record as the log has it."""
        if self._stored is None:
            self._stored = stored(self._message)
        return self._stored

    @property
    def payload(self) -> Any:
        """The payload as its content type says; `PayloadError` if it is not."""
        if self._decoded is _UNDECODED:
            kind = payload.content_type(self.stored.user_headers())
            self._decoded = payload.decode(self.raw, kind, None)
        return self._decoded

    @property
    def raw(self) -> bytes:
        """The payload's bytes."""
        found: bytes | None = self._message.value()
        return found or b""

    @property
    def key(self) -> bytes | None:
        found: bytes | None = self._message.key()
        return found

    @property
    def headers(self) -> Mapping[str, bytes | None]:
        """The sender's headers; of equal names the last."""
        return dict(self.stored.user_headers())

    @property
    def message_id(self) -> str:
        """The id the sender gave, else the place it was first sent to."""
        return self.stored.message_id()

    @property
    def sent_at(self) -> datetime:
        return moment(self.stored.meta().sent_ms or self.stored.at_ms)

    @property
    def partition(self) -> int:
        """The group's partition the key belongs to."""
        return self._tenant.partition

    @property
    def fence(self) -> int:
        """A number that only rises with each new owner of the partition. Store it with what you
        write elsewhere, and refuse writes with a lower one."""
        return self._tenant.fence

    def ack(self) -> None:
        """Done; durable a few milliseconds later, together with others."""
        self._tenant.ack(self)

    def double_ack(self, outputs: Iterable[Output] = ()) -> None:
        """Done, durable when this returns; `Fenced` if another owner has it.

        Outputs are sent in the same transaction: readers see them if and only if it is acked.
        """
        self._tenant.double_ack(self, list(outputs))

    def nak(self, delay: Duration = "0s", reason: str = "") -> None:
        """Deliver it again, here, after a while; nothing of its partition overtakes it."""
        self._tenant.nak(self, milliseconds(delay, "delay"), reason)

    def in_progress(self) -> None:
        """Start ack_wait over: still at it."""
        self._tenant.in_progress(self)

    def term(self, reason: str = "") -> None:
        """Make it a dead letter, and go on with the next."""
        self._tenant.term(self, reason)

    def __repr__(self) -> str:
        return f"<GroupDelivery {self.message_id}, attempt {self.attempt}>"


_UNDECODED: Any = object()
