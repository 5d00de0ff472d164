"""One handing-over of a message of an ordered group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from marq.core.duration import Duration, milliseconds
from marq.core.messages.stored import Stored
from marq.groups.output import Output
from marq.kafka.client.record import stored
from marq.member import GroupDelivery
from marq.message import UNDECODED


class Tenant(Protocol):
    """Who has the partition: where a delivery's verdict goes."""

    partition: int
    fence: int

    def ack(self, delivery: KafkaGroupDelivery) -> None: ...

    def double_ack(self, delivery: KafkaGroupDelivery, outputs: Iterable[Output]) -> None: ...

    def nak(self, delivery: KafkaGroupDelivery, delay_ms: int, reason: str) -> None: ...

    def in_progress(self, delivery: KafkaGroupDelivery) -> None: ...

    def term(self, delivery: KafkaGroupDelivery, reason: str) -> None: ...


class KafkaGroupDelivery(GroupDelivery):
    """A record in the hands of a tenant."""

    __slots__ = (
        "_decoded",
        "_message",
        "_record",
        "_tenant",
        "attempt",
        "deadline_s",
        "offset",
        "settled",
    )

    def __init__(self, tenant: Tenant, message: Any, attempt: int) -> None:
        self._tenant = tenant
        self._message = message
        self._record: Stored | None = None
        self._decoded: Any = UNDECODED
        self.attempt = attempt
        self.offset: int = message.offset()
        self.settled = False
        self.deadline_s = 0.0

    @property
    def stored(self) -> Stored:
        """The record as the log has it."""
        if self._record is None:
            self._record = stored(self._message)
        return self._record

    @property
    def _stored(self) -> Stored:
        return self.stored

    @property
    def payload(self) -> Any:
        if self._decoded is UNDECODED:
            self._decoded = self.payload_as(None)
        return self._decoded

    @property
    def raw(self) -> bytes:
        found: bytes | None = self._message.value()
        return found or b""

    @property
    def key(self) -> bytes | None:
        found: bytes | None = self._message.key()
        return found

    @property
    def partition(self) -> int:
        return self._tenant.partition

    @property
    def fence(self) -> int:
        return self._tenant.fence

    def ack(self) -> None:
        self._tenant.ack(self)

    def double_ack(self, outputs: Iterable[Output] = ()) -> None:
        self._tenant.double_ack(self, list(outputs))

    def nak(self, delay: Duration = "0s", reason: str = "") -> None:
        self._tenant.nak(self, milliseconds(delay, "delay"), reason)

    def in_progress(self) -> None:
        self._tenant.in_progress(self)

    def term(self, reason: str = "") -> None:
        self._tenant.term(self, reason)
