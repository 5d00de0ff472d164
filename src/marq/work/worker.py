"""Workers: run the handlers of queues, in threads or on one event loop."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any, Protocol, Self

from marq import forks
from marq.backend import Backend, Inbox
from marq.errors import ConfigError
from marq.stopping import Stopping
from marq.work.gate import Gate
from marq.work.handler import Handler
from marq.work.runner import Runner

log = logging.getLogger("marq.worker")

_LOOK_S = 0.02


class HasHandler(Protocol):
    """A queue, as far as a worker needs it."""

    name: str
    handling: Handler | None

    def inbox(self) -> Inbox: ...

    def close(self) -> None: ...


class Worker:
    """Runs handlers in the background from `start` (or entering) to `stop` (or leaving)."""

    def __init__(self, backend: Backend, queues: Sequence[HasHandler], drain_s: float) -> None:
        if not queues:
            raise ConfigError("a worker needs at least one queue")
        self._backend = backend
        self._drain_s = drain_s
        self._queues = queues
        gate = Gate()
        self._runners = [_runner(backend, queue, gate) for queue in queues]
        self._stopping = Stopping()
        self._started = self._stopped = self._is_forked = False
        self._told = False
        """Whether someone has heard what it failed with."""
        forks.tell(self)

    def forked(self) -> None:
        """Its threads are in the parent only."""
        self._stopped = self._is_forked = True
        self._stopping = Stopping()

    def run(self, until_idle: bool = False) -> None:
        """Work until told to stop, as `wait`; then stop.

        A signal counts from the start: one that comes before the first message drains, too.
        """
        with _Signals(self._stopping), self:
            self._wait(until_idle)

    def start(self) -> None:
        """Start taking messages."""
        if self._started or self._stopped:
            raise ConfigError("a worker is started once: make another by broker.worker(...)")
        self._started = True
        log.info("worker started", extra={"queues": [runner.name for runner in self._runners]})
        for runner in self._runners:
            runner.start()

    def wait(self, until_idle: bool = False) -> None:
        """Wait until the worker is told to stop; SIGTERM and SIGINT do, in the main thread."""
        with _Signals(self._stopping):
            self._wait(until_idle)

    def _wait(self, until_idle: bool) -> None:
        if self._is_forked:
            raise ConfigError(
                "this worker runs in the process that this one was forked from: make another here"
            )
        while not self._stopping.is_set() and not self._failed():
            if until_idle and self._idle() and self._idle():
                return
            self._stopping.wait(_LOOK_S)
        self._raise_failure()

    def _failed(self) -> bool:
        return any(runner.failure for runner in self._runners)

    def _raise_failure(self) -> None:
        self._told = self._failed()
        for runner in self._runners:
            runner.raise_failure()

    def _idle(self) -> bool:
        """Asked twice: a handler may have sent to a queue that was idle a moment before."""
        return all(runner.idle() for runner in self._runners)

    def stop(self) -> None:
        """Take no more, let handlers finish for a while, give the rest back; again is harmless.

        Raises what ended it before, unless `wait` or `run` has.
        """
        self._end()
        if not self._told:
            self._raise_failure()

    def _end(self) -> None:
        self._stopping.set()
        if self._stopped:
            return
        self._stopped = True
        until = time.monotonic() + self._drain_s
        for runner in self._runners:
            runner.stop_taking()
        for runner in self._runners:
            runner.wait_until_taken(until)
        for queue in self._queues:
            queue.close()  # what is not begun is for others at once, however long handlers run on
        for runner in self._runners:
            runner.drain(until)
        for queue in self._queues:
            queue.close()  # others get its messages now, not when they are missed
        self._backend.flush(self._drain_s)
        log.info("worker stopped", extra={"queues": [runner.name for runner in self._runners]})

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._told |= error is not None  # one error at a time; this one is in the log
        self.stop()


def _runner(backend: Backend, queue: HasHandler, gate: Gate) -> Runner:
    if queue.handling is None:
        raise ConfigError(
            f"queue {queue.name!r} has no handler: put @<the queue>.handler() on a function"
        )
    return Runner(backend, queue.name, queue.inbox(), queue.handling, gate)


class _Signals:
    """SIGTERM and SIGINT set the event; a second one interrupts as usual."""

    def __init__(self, stopping: Stopping) -> None:
        self._stopping = stopping
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._stop)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._restore()
        self._stopping.set()

    def __exit__(self, *error: object) -> None:
        self._restore()

    def _restore(self) -> None:
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)
