"""What a user of an ordered group handles: a delivery to a member, and an instance of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from marq.core.duration import Duration
from marq.groups.output import Output
from marq.message import FromLog


class GroupDelivery(FromLog):
    """A message in the hands of its key's owner. Settle it: ack, nak or term."""

    __slots__ = ()

    attempt: int
    """Which delivery of the message this is, from 1."""
    offset: int
    """Its place in the group's partition: what it is acked as, once."""
    settled: bool

    @property
    def payload(self) -> Any:
        """The payload as its content type says; `PayloadError` if it is not."""
        raise NotImplementedError

    @property
    def partition(self) -> int:
        """The group's partition the key belongs to."""
        raise NotImplementedError

    @property
    def fence(self) -> int:
        """A number that only rises with each new owner of the partition. Store it with what you
        write elsewhere, and refuse writes with a lower one."""
        raise NotImplementedError

    def ack(self) -> None:
        """Done; durable a few milliseconds later, together with others."""
        raise NotImplementedError

    def double_ack(self, outputs: Iterable[Output] = ()) -> None:
        """Done, durable when this returns; `Fenced` if another owner has it.

        Outputs are sent in the same transaction: readers see them if and only if it is acked.
        """
        raise NotImplementedError

    def nak(self, delay: Duration = "0s", reason: str = "") -> None:
        """Deliver it again, here, after a while; nothing of its partition overtakes it."""
        raise NotImplementedError

    def in_progress(self) -> None:
        """Start ack_wait over: still at it."""
        raise NotImplementedError

    def term(self, reason: str = "") -> None:
        """Make it a dead letter, and go on with the next."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<GroupDelivery {self.message_id}, attempt {self.attempt}>"


GroupHandler = Callable[[GroupDelivery], object]


class Instance:
    """A process's part in a group, for one member. A context manager: leaving it drains, acks and
    resigns."""

    member: str
    id: str

    @property
    def is_active(self) -> bool:
        """Whether it is the one of its member that messages are handed to."""
        raise NotImplementedError

    @property
    def partitions(self) -> frozenset[int]:
        """What is delivered here now."""
        raise NotImplementedError

    @property
    def ended(self) -> bool:
        """Whether it is over; `wait` tells how."""
        raise NotImplementedError

    def wait_until_active(self, timeout: float) -> bool:
        """Whether it became active in time."""
        return self.wait_until(lambda: self.is_active, timeout)

    def wait_until(self, true: Callable[[], bool], timeout: float) -> bool:
        """Whether that became true of it in time."""
        raise NotImplementedError

    def stop(self) -> None:
        """Drain, ack, resign and end; again is harmless."""
        raise NotImplementedError

    def wait(self, timeout: float | None = None) -> bool:
        """Whether it has ended in time; raises the error it ended with, if any."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
