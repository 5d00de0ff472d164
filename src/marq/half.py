"""Half messages: each becomes a message if its local transaction happens, and only then.

shop = orders.producer_group("shop", check=was_committed)

with shop.half({"order": 7}) as half:
    with database:
        database.execute("INSERT INTO orders VALUES (?, ?)", (7, half.id))
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any, Self, Unpack

from marq import forks
from marq.backend import Backend, HalfSending, OpenHalf
from marq.checking import Checkers, CheckFunction, asked_now
from marq.core import names
from marq.core.markers.marker import Check
from marq.core.messages import sending
from marq.core.messages.group_options import ProducerGroupOptions, group_times
from marq.core.messages.sending import Message, SendOptions
from marq.core.messages.terms import HalfTerms
from marq.errors import AlreadySettled, ConfigError, QueueError, Rollback
from marq.receipt import Receipt

log = logging.getLogger("marq.half")


class _Deciding:
    """The one lock of all half messages, held while nothing but a field is looked at and set."""

    def __init__(self) -> None:
        self.forked()
        forks.tell(self)

    def forked(self) -> None:
        """In a child nobody holds it."""
        self.lock = threading.Lock()


_deciding = _Deciding()


class Half:
    """A half message: its block's end commits it, an exception asks the group's own check."""

    __slots__ = ("_decided", "_group", "_message", "_opened", "_receipt")

    def __init__(self, group: ProducerGroup, opened: OpenHalf, message: Message) -> None:
        self._group = group
        self._opened = opened
        self._message = message
        self._decided: Check | None = None
        self._receipt: Receipt[None] | None = None

    def __repr__(self) -> str:
        return f"<Half {self.id} {self._decided or 'open'}>"

    @property
    def id(self) -> str:
        """Its address: the local transaction writes it down, the check is asked about it."""
        return self._opened.id

    def commit(self) -> Receipt[None]:
        """Deliver it; done when the queue has it."""
        return self._decide(Check.COMMIT, self._opened.commit)

    def rollback(self) -> Receipt[None]:
        """Never deliver it; done when nobody is asked about it any more."""
        return self._decide(Check.ROLLBACK, self._opened.rollback)

    def _decide(self, verdict: Check, decide: Callable[[], Receipt[None]]) -> Receipt[None]:
        with _deciding.lock:
            before, self._decided = self._decided, self._decided or verdict
        if before is None:
            self._receipt = decide()
        elif before is not verdict:
            raise AlreadySettled(
                f"half message {self.id} was decided before ({before}): it is decided once",
                message_id=self.id,
            )
        if self._receipt is None:
            raise QueueError(f"half message {self.id} could not be decided: check-back decides")
        return self._receipt

    # As a block.

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is None:
            receipt = self._receipt if self._decided else self.commit()
            if receipt is not None:
                receipt.result()
            return False
        if isinstance(error, Rollback):
            self.rollback().result()
            return True
        self._broken_off(error)
        return False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is None:
            receipt = self._receipt if self._decided else self.commit()
            if receipt is not None:
                await receipt
            return False
        if isinstance(error, Rollback):
            await self.rollback()
            return True
        if isinstance(error, asyncio.CancelledError):
            self._opened.let_go()
        else:
            await asyncio.to_thread(self._broken_off, error)
        return False

    def _broken_off(self, error: BaseException) -> None:
        """By itself an exception decides nothing: a database may have committed although its
        client raises. What the check does not know is left to check-back."""
        if self._decided is not None:
            return
        try:
            verdict = Check.UNKNOWN
            if isinstance(error, Exception):
                verdict = self._group.asked_now(self.id, self._message.value)
            if verdict is Check.UNKNOWN:
                self._opened.let_go()
            else:
                self.commit() if verdict is Check.COMMIT else self.rollback()
        except Exception:  # the block's own exception is what is to be seen
            log.exception("not decided now, so check-back decides", extra={"half": self.id})
            self._opened.let_go()


class HalfReceipt:
    """The result of `half_nowait`: the half message, once it is durable."""

    __slots__ = ("_group", "_half", "_message", "_receipt")

    def __init__(self, group: ProducerGroup, receipt: Receipt[OpenHalf], message: Message) -> None:
        self._group = group
        self._receipt = receipt
        self._message = message
        self._half: Half | None = None

    def done(self) -> bool:
        """Whether it is durable, or refused."""
        return self._receipt.done()

    def result(self, timeout: float | None = None) -> Half:
        """The half message; waits at most `timeout` seconds, then raises `TimeoutError`."""
        if self._half is None:
            self._half = Half(self._group, self._receipt.result(timeout), self._message)
        return self._half

    def __await__(self) -> Generator[Any, None, Half]:
        opened = yield from self._receipt.__await__()
        if self._half is None:
            self._half = Half(self._group, opened, self._message)
        return self._half


class ProducerGroup:
    """Those who send half messages to a queue and are asked about each other's.

    Made by `queue.producer_group(...)`. As long as it is open, this process is a member.
    """

    def __init__(
        self,
        backend: Backend,
        queue: str,
        name: str,
        check: CheckFunction,
        max_delay_ms: int,
        **options: Unpack[ProducerGroupOptions],
    ) -> None:
        self.name = names.producer_group(name)
        self.queue = queue
        if not callable(check):
            raise ConfigError(
                "a producer group needs a check: a function of a half message's id and payload "
                "that answers marq.COMMIT, marq.ROLLBACK or marq.UNKNOWN"
            )
        times = group_times(options)
        _refuse_to_lose(backend, queue, times.give_up_after_ms)
        self._backend = backend
        self._check = check
        self._check_timeout_s = times.check_timeout_ms / 1_000
        self._max_delay_ms = max_delay_ms
        terms = HalfTerms(
            self.name,
            f"{socket.gethostname()}:{os.getpid()}",
            backend.halves.open_group(queue, self.name),
            times.check_after_ms,
            times.check_every_ms,
            times.max_checks,
            times.give_up_after_ms,
        )
        self._sending = HalfSending(queue, terms, times.timeout_ms)
        self.members = Checkers(backend, self.name, check, self._check_timeout_s)
        """Those who answer here."""
        self._closed = False

    def __repr__(self) -> str:
        return f"<ProducerGroup {self.name} of {self.queue}>"

    def half(self, payload: Any, **options: Unpack[SendOptions]) -> Half:
        """Send a half message; returns when it is durable."""
        return self._sent(payload, options, waits=True).result()

    def half_nowait(self, payload: Any, **options: Unpack[SendOptions]) -> HalfReceipt:
        """Send a half message; the result may be waited for later."""
        return self._sent(payload, options, waits=False)

    def _sent(self, payload: Any, options: SendOptions, waits: bool) -> HalfReceipt:
        if self._closed:
            raise ConfigError("the producer group is closed: open it again")
        if type(payload) is bytes and not options:
            message = Message(payload)  # nothing to check or encode
        else:
            message = sending.message(payload, options, self._max_delay_ms)
        receipt = self._backend.halves.send(message, self._sending, waits)
        return HalfReceipt(self, receipt, message)

    def asked_now(self, half_id: str, payload: bytes) -> Check:
        """What the group's own check says of this half message."""
        verdict, reason = asked_now(self._check, half_id, payload, self._check_timeout_s)
        if reason:
            log.warning("check-back decides: %s", reason, extra={"half": half_id})
        return verdict

    def close(self) -> None:
        """Answer no more here; again is harmless."""
        self._closed = True
        self.members.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _refuse_to_lose(backend: Backend, queue: str, give_up_after_ms: int) -> None:
    found = backend.catalog().queue(queue)
    if found is not None and not found.dead_letter and give_up_after_ms:
        raise ConfigError(
            f"queue {queue!r} keeps no dead letters, so a half message that is given up would be "
            f"lost: say give_up_after=None"
        )
