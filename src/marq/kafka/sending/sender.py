"""Sends messages: idempotent, with light results, waiting where the buffer is full."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from typing import Any

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException
from msgspec import Struct

from marq.core.messages import header
from marq.core.messages.stored import ANY_PARTITION, Outgoing
from marq.errors import ConfigError, NotConnected, PayloadError, QueueError
from marq.kafka.client import codes
from marq.kafka.client.answers import WaitingRoom
from marq.kafka.client.lasting import LastingProducer
from marq.kafka.client.refusals import denied
from marq.message import Sent, moment

_POLL_S = 0.1
_CLOSE_S = 10.0
_SLICE_S = 0.02


class Outcomes(WaitingRoom):
    """What became of what was sent: whoever sent it asks, else whoever flushes is told."""

    def __init__(self) -> None:
        super().__init__()
        self._counting = threading.Lock()
        self.untold = 0
        """Messages that were refused, of which nobody has asked."""
        self._refusal: QueueError | None = None

    def refused(self, error: KafkaError, topic: str) -> None:
        with self._counting:
            self.untold += 1
            self._refusal = self._refusal or send_error(error, topic, 0)

    def forked(self) -> None:
        self._counting = threading.Lock()
        super().forked()

    def told(self) -> None:
        with self._counting:
            self.untold = max(0, self.untold - 1)  # 0: a flush has told it already

    def tell(self) -> None:
        """Raise what nobody has asked for; once."""
        with self._counting:
            (number, self.untold), (refusal, self._refusal) = (
                (self.untold, 0),
                (self._refusal, None),
            )
        if number > 0 and refusal is not None:
            raise type(refusal)(f"{number} sent messages are not in the log: {refusal}")


_HEARD = Outcomes()
"""Of results whose error someone has seen."""


class SendResult(Struct, gc=False, eq=False):
    """The light result of one send: also the delivery callback itself, so a send costs one small
    object, which the garbage collector has not to look at."""

    _waiting: Outcomes
    _outgoing: Outgoing | None
    """What was sent, where its header has a say in the result; None: plain."""
    _message: Any = None
    _error: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:  # counted before anyone can ask
            self._waiting.refused(error, _topic(message))
        self._error = error
        self._message = message
        if self._waiting._waiters:
            self._waiting.answered(self)

    def done(self) -> bool:
        return self._message is not None or self._error is not None

    def result(self, timeout: float | None = None) -> Sent:
        self.refuse_failed(timeout)
        return self._sent()

    def refuse_failed(self, timeout: float | None) -> None:
        """Wait for the log, and raise what it refused."""
        if not self.done():
            self._waiting.wait_for(self, timeout)
        if self._error is not None:
            waiting, self._waiting = self._waiting, _HEARD
            if waiting is not _HEARD:
                waiting.told()
            raise send_error(self._error, _topic(self._message), 0)

    def _sent(self) -> Sent:
        message = self._message
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        meta = header.split(self._outgoing.headers)[0] if self._outgoing else header.PLAIN
        due_ms = meta.due_at(message.timestamp()[1])
        return Sent(
            meta.message_id or f"{topic}:{partition}:{offset}",
            topic,
            partition,
            offset,
            moment(due_ms) if due_ms else None,
        )

    def __await__(self) -> Generator[Any, None, Sent]:
        if not self.done():
            yield from self._waiting.wait(self).__await__()
        return self.result()


def _topic(message: Any) -> str:
    return message.topic() if message else ""


class Sender(LastingProducer):
    """A producer for all queues of a process.

    What was under way when it had to be replaced fails: whoever sent it knows whether to send it
    again.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        failed: Callable[[QueueError], None] = lambda error: None,
    ) -> None:
        super().__init__(settings, "marq-sender")
        self._failed = failed
        self._waiting = Outcomes()
        self._poller.start()

    def send_plain(self, topic: str, value: bytes, key: bytes | None) -> SendResult:
        """Send a message that has no headers: the fast way."""
        result = SendResult(self._waiting, None)
        try:
            self._producer.produce(topic, value, key, on_delivery=result)
        except (BufferError, KafkaException):
            self._send_slowly(topic, value, key, ANY_PARTITION, [], result)
        return result

    def send(self, outgoing: Outgoing) -> SendResult:
        """Send a message; partition -1: by its key."""
        result = SendResult(self._waiting, outgoing)
        self.send_for(outgoing, result)
        return result

    @property
    def waiting(self) -> Outcomes:
        """Where results are waited for."""
        return self._waiting

    def send_for(self, outgoing: Outgoing, result: SendResult) -> None:
        """The same, for whoever makes a result of his own."""
        headers: list[tuple[str, str | bytes | None]] = list(outgoing.headers)
        value = outgoing.value or b""
        self._send_slowly(outgoing.topic, value, outgoing.key, outgoing.partition, headers, result)

    def append(self, topic: str, partition: int, value: bytes, timeout_s: float) -> int | None:
        """Append a marker; when the log took it, as far as the broker said."""
        result = SendResult(self._waiting, None)
        self._send_slowly(topic, value, None, partition, [], result)
        result.result(timeout_s)
        kind, at_ms = result._message.timestamp()
        return int(at_ms) if kind == TIMESTAMP_LOG_APPEND_TIME else None

    def _send_slowly(
        self,
        topic: str,
        value: bytes,
        key: bytes | None,
        partition: int,
        headers: list[tuple[str, str | bytes | None]],
        result: SendResult,
    ) -> None:
        while True:
            producer = self._producer
            try:
                producer.produce(topic, value, key, partition, on_delivery=result, headers=headers)
                return
            except BufferError:
                producer.poll(_POLL_S)  # full: wait for room rather than fail
            except KafkaException as error:
                self._replace_if_fatal(producer, error.args[0])
                if producer is self._producer:
                    raise send_error(error.args[0], topic, len(value)) from None

    def flush(self, timeout_s: float | None) -> None:
        """Wait until everything sent so far is durable."""
        if self.failure is not None:
            raise self.failure
        if left := self._drain(timeout_s):
            raise NotConnected(f"{left} messages are not durable yet: no broker takes them in time")

    def tell(self) -> None:
        """Raise what was refused, and nobody has asked for; once."""
        self._waiting.tell()

    def _drain(self, timeout_s: float | None) -> int:
        """Wait until nothing is under way; what is left then.

        In short steps: beside others who send, a flush of the producer takes ten times as long as
        it is told to.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while left := self._under_way():
            if until is not None and time.monotonic() >= until:
                return left
            self._producer.flush(_SLICE_S)
        return 0

    @property
    def busy(self) -> bool:
        """Whether anything is under way."""
        return len(self._producer) > 0 or bool(self._replaced)

    def _under_way(self) -> int:
        return len(self._producer) + sum(map(len, list(self._replaced)))

    def _died(self, error: BaseException) -> None:
        super()._died(error)
        assert self.failure is not None
        self._waiting.break_off(self.failure)
        self._failed(self.failure)

    def forked(self) -> None:
        """This is a child: what was sent is the parent's to hear of."""
        self._waiting.forked()

    def unsent(self) -> int:
        """Messages of which the log is not known to know."""
        return self._under_way() + self._waiting.untold

    def close(self) -> None:
        """Send what is left, as long as that takes seconds, and stop; what is not in the log then
        is an error."""
        if self._closing:
            return
        left = self._drain(_CLOSE_S)
        self._stop()
        self._waiting.break_off(NotConnected("the broker was closed before the log took it"))
        if left:
            raise NotConnected(f"closed, but {left} sent messages are not in the log")
        self.tell()


def send_error(error: KafkaError, topic: str, size: int) -> QueueError:
    """Why a message was not sent, in a sentence."""
    if codes.is_too_large(error):
        return PayloadError(
            f"the payload of {size or 'too many'} bytes is too large for a message "
            f"(1 MB unless message.max.bytes says otherwise): send a reference to it",
            size=size,
        )
    if codes.is_gone(error):
        return ConfigError(f"there is no queue {topic!r}: it was deleted; create it again first")
    if codes.is_denied(error):
        return denied(f"WRITE on topic {topic!r}", error.str())
    return NotConnected(f"the message to {topic!r} was not sent: {error.str()}")
