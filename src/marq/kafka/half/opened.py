"""A half message in its owner's hands, and the results its owner waits for.

1. The half message is in the log.
2. Its final is sent to the queue, and taken there.
3. Its end is in the log; nobody is asked any more.

Crash windows: between 1 and 2 its group is asked; between 2 and 3, too, and who says commit makes a
second final with the same id. Nothing whose outcome is unknown is written again here.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError

from marq.backend import HalfSending
from marq.core.fate import halves
from marq.core.markers.marker import ParkedRef
from marq.core.messages.owned import Owned
from marq.core.messages.sending import Message
from marq.core.messages.stored import ANY_PARTITION, Outgoing
from marq.errors import NotConnected, QueueError
from marq.kafka.sending.sender import Sender, SendResult
from marq.receipt import Receipt


class HalfHome(Protocol):
    """What a process does for the half messages that it has sent."""

    topic: str

    def now_ms(self) -> int: ...

    def refuse_elsewhere(self) -> None:
        """Raise where it cannot be decided."""
        ...

    def look_up(self, half: KafkaHalf) -> None:
        """Tell the half message when the log took it."""
        ...

    def keep(self, half: KafkaHalf) -> None: ...

    def let_go(self, half: KafkaHalf) -> None: ...

    def end(self, half: KafkaHalf) -> Receipt[None]: ...

    def end_soon(self, half: KafkaHalf) -> None: ...

    def leave_to_tracker(self, half: KafkaHalf) -> Receipt[None]: ...


class KafkaHalf:
    """A half message, from when it is sent until it is decided."""

    __slots__ = (
        "_halves",
        "_sender", "at_ms", "extend_at_s", "message", "offset", "owned",
        "partition", "terms", "until_s",
    )  # fmt: skip

    def __init__(
        self, home: HalfHome, message: Message, terms: HalfSending, sender: Sender
    ) -> None:
        self._halves = home
        self.message = message
        self.terms = terms
        self._sender = sender
        """By which it was sent, and its final is."""
        self.partition = self.offset = -1
        self.at_ms = 0
        """When the log took it; 0: that is not known yet."""
        self.extend_at_s = 0.0
        """When (monotonic) its next sign of life is due."""
        self.until_s = 0.0
        """Until when (monotonic) its owner keeps others from being asked."""
        self.owned: Owned | None = None
        """None: it is not known when its owner's time began."""

    @property
    def id(self) -> str:
        return f"{self._halves.topic}:{self.partition}:{self.offset}"

    @property
    def ref(self) -> ParkedRef:
        return ParkedRef(self.at_ms + self.terms.half.check_after_ms, self.offset)

    def taken(self, message: Any) -> None:
        """The log has it."""
        self.partition, self.offset = message.partition(), message.offset()
        kind, at_ms = message.timestamp()
        if kind == TIMESTAMP_LOG_APPEND_TIME:
            self.lies_since(at_ms)

    def lies_since(self, at_ms: int) -> None:
        """It was appended then: from here on it is kept alive."""
        self.at_ms = at_ms
        self.owned = Owned(self.ref, at_ms + self.terms.half.check_after_ms)
        self._halves.keep(self)

    def commit(self) -> Receipt[None]:
        self._halves.refuse_elsewhere()
        assert self.owned is not None, "it was handed out"
        if self.owned.lapsed(self._halves.now_ms()):
            return self._halves.leave_to_tracker(self)
        final = Final(self._sender.waiting, None, _half=self)
        try:
            self._sender.send_for(self._final(), final)
        except BaseException:
            self.let_go()
            raise
        return final

    def rollback(self) -> Receipt[None]:
        self._halves.refuse_elsewhere()
        return self._halves.end(self)

    def _final(self) -> Outgoing:
        message, queue = self.message, self.terms.queue
        now_ms = self._halves.now_ms() if message.due_ms else 0
        about = (self.id, queue, self.terms.half, message, now_ms)
        is_parked, headers = halves.final_headers(*about)
        topic = self._halves.topic if is_parked else queue
        return Outgoing(topic, ANY_PARTITION, message.key, message.value, headers)

    def final_taken(self, error: KafkaError | None) -> None:
        """The queue has its final, or nobody knows: then those who are asked decide."""
        if error is None:
            self._halves.end_soon(self)
        else:
            self.let_go()

    def let_go(self) -> None:
        self._halves.let_go(self)


class HalfResult(SendResult, gc=False, eq=False, kw_only=True):
    """The result of sending a half message."""

    _half: KafkaHalf

    def __call__(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            self._half.taken(message)
        super().__call__(error, message)

    def result(self, timeout: float | None = None) -> KafkaHalf:  # type: ignore[override]
        self.refuse_failed(timeout)
        if self._half.owned is None:
            self._half._halves.look_up(self._half)
        return self._half

    def __await__(self) -> Generator[Any, None, KafkaHalf]:  # type: ignore[override]
        if not self.done():
            yield from self._waiting.wait(self).__await__()
        return self.result()


class Final(SendResult, gc=False, eq=False, kw_only=True):
    """The receipt of a commit: done when the queue has the final."""

    _half: KafkaHalf

    def __call__(self, error: KafkaError | None, message: Any) -> None:
        self._half.final_taken(error)
        super().__call__(error, message)

    def result(self, timeout: float | None = None) -> None:  # type: ignore[override]
        try:
            self.refuse_failed(timeout)
        except QueueError as error:
            raise NotConnected(
                f"whether half message {self._half.id} was committed is not known yet, check-back "
                f"decides: {error}"
            ) from error

    def __await__(self) -> Generator[Any, None, None]:  # type: ignore[override]
        if not self.done():
            yield from self._waiting.wait(self).__await__()
        return self.result()
