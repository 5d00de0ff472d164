"""Answers for a producer group: runs its check when it is asked, sixteen at once at most."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError

from marq import forks, threads
from marq.backend import Asked, Backend
from marq.core.markers.marker import Check, HalfAnswer
from marq.core.markers.reason import told
from marq.errors import QueueError

log = logging.getLogger("marq.half")

CheckFunction = Callable[[str, bytes], "Check | str | Awaitable[Check | str]"]
"""Whether the local transaction of a half message has happened, by its id and payload."""
AT_ONCE = 16
_LOOK_S = 0.25
_PAUSE_S = 1.0


def checked(check: CheckFunction, half_id: str, payload: bytes) -> tuple[Check, str]:
    """What the check says, and why that is "unknown" where it says nothing of use."""
    try:
        found = check(half_id, payload)
        if inspect.isawaitable(found):
            found = asyncio.run(_awaited(found))
        if isinstance(found, str) and found in tuple(Check):
            return Check(found), ""
        return (
            Check.UNKNOWN,
            f"the check answered {found!r}: commit, rollback, unknown are meant",
        )
    except BaseException as error:  # of whatever kind: it must not end the hand that it ran in
        return Check.UNKNOWN, f"the check raised {told(error)}"


async def _awaited(found: Awaitable[Check | str]) -> Check | str:
    return await found


def asked_now(
    check: CheckFunction, half_id: str, payload: bytes, timeout_s: float
) -> tuple[Check, str]:
    """The same, of a check that may hang; in a thread of its own, as when it is asked back."""
    found: Future[tuple[Check, str]] = Future()
    threads.start(
        lambda: found.set_result(checked(check, half_id, payload)),
        "marq-check",
        found.set_exception,
    )
    try:
        return found.result(timeout_s)
    except FutureTimeoutError:
        return Check.UNKNOWN, _too_long(timeout_s)


class _Running:
    """A check that runs."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.since = time.monotonic()
        self.told = False
        """It took too long, and that was answered."""


class Checkers:
    """One process's share in a producer group."""

    def __init__(
        self, backend: Backend, group: str, check: CheckFunction, timeout_s: float
    ) -> None:
        self._backend = backend
        self._group = group
        self._check = check
        self._timeout_s = timeout_s
        self._changed = threading.Condition()
        self._waiting: dict[str, Asked] = {}
        """By half message, the newest request about it."""
        self._running: dict[str, _Running] = {}
        self._hands = 0
        self._idle = 0
        self._closing = False
        self.failure: BaseException | None = None
        """Why nothing is answered here any more."""
        self._requests = backend.halves.requests(group)
        self._thread = threads.start(self._run, "marq-checks", self._failed)
        forks.tell(self)

    def forked(self) -> None:
        """In a child nobody answers: its parent does."""
        self._closing = True
        self._changed = threading.Condition()

    def _failed(self, error: BaseException) -> None:
        self.failure = error

    def _run(self) -> None:
        while not self._closing:
            try:
                for asked in self._requests.take(_LOOK_S):
                    self._take(asked)
            except QueueError as error:
                log.warning("requests are not heard: %s", error)
                time.sleep(_PAUSE_S)
            self._tell_late()

    def _take(self, asked: Asked) -> None:
        address = asked.request.address
        with self._changed:
            known = self._waiting.get(address)
            if known is None or known.request.number < asked.request.number:
                self._waiting[address] = asked
            if self._idle:
                self._changed.notify()
            elif self._hands < AT_ONCE:
                self._hands += 1
                threads.start(self._work, "marq-check", self._failed)

    def _tell_late(self) -> None:
        now = time.monotonic()
        with self._changed:
            late = [r for r in self._running.values() if now - r.since > self._timeout_s]
        for running in late:
            if not running.told:
                running.told = True
                self._answer(running.asked, Check.UNKNOWN, _too_long(self._timeout_s))

    def _work(self) -> None:
        while (running := self._next()) is not None:
            asked = running.asked
            verdict, reason = checked(self._check, asked.request.address, asked.value)
            with self._changed:
                del self._running[asked.request.address]
            # What is known is known for good, however long it took.
            if not running.told or verdict is not Check.UNKNOWN:
                self._answer(asked, verdict, reason)

    def _next(self) -> _Running | None:
        """The next request about a half message that no check runs for."""
        with self._changed:
            self._idle += 1
            try:
                while not self._closing:
                    for address in self._waiting:
                        if address not in self._running:
                            running = _Running(self._waiting.pop(address))
                            self._running[address] = running
                            return running
                    self._changed.wait(_LOOK_S)
            finally:
                self._idle -= 1
        return None

    def _answer(self, asked: Asked, verdict: Check, reason: str) -> None:
        request = asked.request
        if reason:
            log.warning("not known: %s", reason, extra={"half": request.address})
        try:
            answer = HalfAnswer((request.ref,), verdict, request.number, reason)
            self._backend.halves.answer(request.partition, answer)
        except QueueError as error:  # it is asked again
            log.warning("not answered: %s", error, extra={"half": request.address})

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        with self._changed:
            self._changed.notify_all()
        self._thread.join()
        self._requests.close()


def _too_long(timeout_s: float) -> str:
    return f"the check took longer than {timeout_s:g} s"
