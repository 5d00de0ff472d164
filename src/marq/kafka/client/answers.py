"""Receipts on Kafka: light objects that delivery reports fill in."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Generator, Iterator
from typing import Any, Generic, Protocol, TypeVar

from marq.errors import QueueError

T = TypeVar("T")


class Waited(Protocol):
    """What someone waits for."""

    def done(self) -> bool: ...


class _Awaiting:
    """The receipts that tasks of one event loop wait for."""

    def __init__(self) -> None:
        self.futures: dict[asyncio.Future[None], Waited] = {}
        self.told = False
        """Whether the loop is going to look at its receipts anyway."""


class WaitingRoom:
    """Where threads and tasks wait for reports: one for all receipts, told only if someone waits.

    Each thread has a gate of its own: where many wait, each for a receipt of its own, a report
    wakes one of them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters = 0
        self._gates: dict[int, list[threading.Lock]] = {}
        """Of threads that wait, by the receipt's id."""
        self._loops: dict[asyncio.AbstractEventLoop, _Awaiting] = {}
        self.broken: QueueError | None = None
        """Why nothing more will be reported."""

    def answered(self, receipt: Waited | None = None) -> None:
        """This receipt was filled in; None: whoever waits shall look."""
        if self._waiters:
            with self._lock:
                found = self._gates.values() if receipt is None else [self._of(receipt)]
                for gate in (gate for gates in found for gate in gates if gate.locked()):
                    gate.release()
                for loop, awaiting in list(self._loops.items()):
                    self._tell(loop, awaiting)

    def break_off(self, error: QueueError) -> None:
        """No more reports will come: whoever waits, now or later, gets this error."""
        self.broken = self.broken or error
        self.answered()

    def forked(self) -> None:
        """This is a child of whoever waits: what is reported is reported to the parent."""
        self._lock = threading.Lock()
        self._waiters, self._gates, self._loops = 0, {}, {}
        self.broken = QueueError(
            "this process was forked from the one that knows what became of it: ask there"
        )

    def wait_for(self, receipt: Waited, timeout: float | None) -> None:
        until = None if timeout is None else time.monotonic() + timeout
        with self._gate(receipt) as gate:
            while not self._over(receipt):
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError("the log has not answered yet")
                # Bounded: a report between the check of the waiters and this wait is not lost.
                gate.acquire(timeout=0.05 if left is None else min(left, 0.05))

    @contextlib.contextmanager
    def _gate(self, receipt: Waited) -> Iterator[threading.Lock]:
        """A closed one, which the receipt's report opens."""
        gate = threading.Lock()
        gate.acquire()
        with self._lock:
            self._waiters += 1
            self._gates.setdefault(id(receipt), []).append(gate)
        try:
            yield gate
        finally:
            with self._lock:
                self._waiters -= 1
                self._of(receipt).remove(gate)
                if not self._of(receipt):
                    del self._gates[id(receipt)]

    def _of(self, receipt: Waited) -> list[threading.Lock]:
        return self._gates.get(id(receipt), [])

    async def wait(self, receipt: Waited) -> None:
        """The same for a task: no thread waits for it."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        with self._lock:
            self._waiters += 1
            self._loops.setdefault(loop, _Awaiting()).futures[future] = receipt
        try:
            # Looked at again once it is known that someone waits: a report that came before is
            # seen here, and one that comes later tells.
            while not self._over(receipt):
                await future
        finally:
            self._leave(loop, future)

    def _over(self, receipt: Waited) -> bool:
        if receipt.done():
            return True
        if self.broken is not None:
            raise self.broken
        return False

    def _leave(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
        with self._lock:
            self._waiters -= 1
            futures = self._loops[loop].futures
            futures.pop(future, None)
            if not futures:
                del self._loops[loop]

    def _tell(self, loop: asyncio.AbstractEventLoop, awaiting: _Awaiting) -> None:
        """Have the loop look, once for all that is reported until it does."""
        if not awaiting.told:
            awaiting.told = True
            with contextlib.suppress(RuntimeError):  # closed: nobody waits there any more
                loop.call_soon_threadsafe(self._look, awaiting)

    def _look(self, awaiting: _Awaiting) -> None:
        with self._lock:
            awaiting.told = False
            waiting = list(awaiting.futures.items())
        for future, receipt in waiting:
            if (self.broken is not None or receipt.done()) and not future.done():
                future.set_result(None)


class Answer(Generic[T]):
    """A receipt: filled in once, by a report or an error."""

    __slots__ = ("_error", "_filled", "_value", "_waiting", "asked")

    def __init__(self, waiting: WaitingRoom) -> None:
        self._waiting = waiting
        self._filled = self.asked = False
        self._value: T | None = None
        self._error: Exception | None = None

    def done(self) -> bool:
        return self._filled

    def fill(self, value: T) -> None:
        self._value = value
        self._filled = True
        self._waiting.answered(self)

    def fail(self, error: Exception) -> None:
        self._error = error
        self._filled = True
        self._waiting.answered(self)

    def result(self, timeout: float | None = None) -> T:
        if not self._filled:
            self._waiting.wait_for(self, timeout)
        if self._error is not None:
            self.asked = True
            raise self._error
        return self._value  # type: ignore[return-value]

    def __await__(self) -> Generator[Any, None, T]:
        if not self._filled:
            yield from self._waiting.wait(self).__await__()
        return self.result()
