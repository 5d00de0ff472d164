"""Runs one queue's handler: takes messages while there are free hands, settles what came of it."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from marq.backend import Backend, Handing, Inbox
from marq.core.duration import text
from marq.errors import PayloadError, QueueError
from marq.handler import Handler
from marq.message import Delivery

log = logging.getLogger("marq.worker")

BATCH = 500
"""Messages a batch handler is handed at most."""
_TAKE_S = 0.1

Deliveries = list[Delivery[Any]]


class Job:
    """One call of the handler."""

    __slots__ = ("cancel", "deliveries", "started_ms")

    def __init__(self, deliveries: Deliveries, started_ms: int) -> None:
        self.deliveries = deliveries
        self.started_ms = started_ms
        self.cancel: Callable[[], object] = lambda: None
        """Interrupts an async handler; a thread cannot be interrupted."""


class Runner:
    """One queue's messages and the hands that handle them."""

    def __init__(self, backend: Backend, name: str, inbox: Inbox, handler: Handler) -> None:
        self.name = name
        self.failure: BaseException | None = None
        self._backend = backend
        self._inbox = inbox
        self._handler = handler
        self._handing = Handing(kept_alive=True, wanted=handler.wanted)
        self._jobs: set[Job] = set()
        self._free = threading.Condition()
        self._stopping = False
        self._rounds = 0
        self._quiet_since: int | None = None
        self._hands: _Threads | _Loop = (
            _Loop(self._run_async) if handler.is_async else _Threads(self._run, handler.concurrency)
        )
        self._taker = threading.Thread(target=self._take, name=f"marq-{name}", daemon=True)

    def idle(self) -> bool:
        """Whether nothing runs and nothing can; ask again until it is so.

        What is in flight and no job may be someone else's, or was taken this very moment: the
        taker's next round tells.
        """
        rounds = self._rounds
        stats = self._backend.counted(self.name)
        if self._jobs or (stats.ready and not self._paused()):
            self._quiet_since = None
        elif self._quiet_since is None:
            self._quiet_since = rounds
        return self._quiet_since is not None and (not stats.in_flight or rounds > self._quiet_since)

    def _paused(self) -> bool:
        definition = self._backend.catalog().queue(self.name)
        return definition is not None and definition.paused

    def start(self) -> None:
        self._taker.start()

    def stop_taking(self) -> None:
        with self._free:
            self._stopping = True
            self._free.notify_all()

    def wait_until_taken(self, until: float) -> None:
        """Wait, to that (monotonic) time at most, until it takes no more."""
        if self._taker.ident:
            self._taker.join(max(0.0, until - time.monotonic()) + _TAKE_S)

    def drain(self, until: float) -> None:
        """Let handlers finish until that (monotonic) time; give back what still runs."""
        with self._free:
            self._free.wait_for(lambda: not self._jobs, max(0.0, until - time.monotonic()))
            left = list(self._jobs)
        for job in left:
            _settle(job.deliveries, _give_back)
            job.cancel()
        self._hands.close()

    def raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    # Taking.

    def _take(self) -> None:
        try:
            while not self._stopping:
                self._end_overlong()
                free = self._wait_for_a_free_hand()
                if free:
                    self._hand_over(free)
                self._rounds += 1
        except BaseException as error:  # shown by whoever waits for the worker
            log.error("worker failed", extra={"queue": self.name}, exc_info=error)
            self.failure = error

    def _wait_for_a_free_hand(self) -> int:
        with self._free:
            free = self._handler.concurrency - len(self._jobs)
            if free <= 0:
                self._free.wait(_TAKE_S)
            return max(0, free)

    def _hand_over(self, free: int) -> None:
        limit = BATCH if self._handler.batch else free
        taken = self._inbox.take(limit, _TAKE_S, self._handing)
        if self._stopping:
            _settle(taken, _give_back)
            return
        for deliveries in [taken] if self._handler.batch and taken else [[d] for d in taken]:
            job = Job(deliveries, self._backend.now_ms())
            with self._free:
                self._jobs.add(job)
            self._hands.submit(job)

    def _end_overlong(self) -> None:
        """A handler past its timeout has lost its messages; what it still does is ignored."""
        limit_ms = self._backend.now_ms() - self._handler.timeout_ms
        reason = f"timeout: the handler ran longer than {text(self._handler.timeout_ms)}"
        with self._free:
            overlong = [job for job in self._jobs if job.started_ms <= limit_ms]
        for job in overlong:
            if any(not delivery.settled for delivery in job.deliveries):
                _settle(job.deliveries, lambda delivery: delivery.retry(None, reason))
                job.cancel()

    # Running.

    def _run(self, job: Job) -> None:
        try:
            wanted, arguments = self._decoded(job)
            if wanted:
                _refuse_awaitable(self._handler.function(*arguments))
                _settle(wanted, _ack)
        except BaseException as error:
            self._failed(job, error)
        finally:
            self._done(job)

    async def _run_async(self, job: Job) -> None:
        try:
            wanted, arguments = self._decoded(job)
            if wanted:
                await self._handler.function(*arguments)
                _settle(wanted, _ack)
        except BaseException as error:
            self._failed(job, error)
        finally:
            self._done(job)

    def _decoded(self, job: Job) -> tuple[Deliveries, list[Any]]:
        """What the handler can be called with; the rest is buried, never a crash loop."""
        try:
            return job.deliveries, self._handler.arguments(job.deliveries)
        except PayloadError:
            wanted = [delivery for delivery in job.deliveries if self._decodes(delivery)]
            return wanted, self._handler.arguments(wanted) if wanted else []

    def _decodes(self, delivery: Delivery[Any]) -> bool:
        try:
            self._handler.arguments([delivery])
        except PayloadError as error:
            reason = str(error)
            _settle([delivery], lambda delivery: delivery.reject(reason))
            return False
        return True

    def _failed(self, job: Job, error: BaseException) -> None:
        reason = f"{type(error).__name__}: {error}"
        log.warning("handler failed", extra={"queue": self.name}, exc_info=error)
        _settle(job.deliveries, lambda delivery: delivery.retry(None, reason))

    def _done(self, job: Job) -> None:
        with self._free:
            self._jobs.discard(job)
            self._free.notify_all()


def _refuse_awaitable(result: object) -> None:
    """Nothing of it has run yet: an ack now would lose the message."""
    if inspect.iscoroutine(result):
        result.close()
    if inspect.isawaitable(result):
        raise TypeError("the handler returned an awaitable: make it an async def itself")


def _ack(delivery: Delivery[Any]) -> None:
    delivery.ack()


def _give_back(delivery: Delivery[Any]) -> None:
    delivery.give_back()


def _settle(deliveries: Deliveries, verdict: Callable[[Delivery[Any]], object]) -> None:
    """Settle what the handler left unsettled; what is lost already comes back by itself."""
    for delivery in deliveries:
        if not delivery.settled:
            try:
                verdict(delivery)
            except QueueError as error:  # of a handler's thread nothing else may come of it
                log.warning(
                    "not settled", extra={"message_id": delivery.message_id}, exc_info=error
                )


class _Threads:
    """Daemon threads, made as they are needed: a handler that hangs must not keep the process."""

    def __init__(self, run: Callable[[Job], None], most: int) -> None:
        self._run = run
        self._most = most
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._open = 0
        """Jobs that wait or run: none of them waits for another while there may be more threads."""
        self._lock = threading.Lock()

    def submit(self, job: Job) -> None:
        with self._lock:
            self._open += 1
            if len(self._threads) < min(self._open, self._most):
                thread = threading.Thread(target=self._work, name="marq-handler", daemon=True)
                self._threads.append(thread)
                thread.start()
        self._jobs.put(job)

    def _work(self) -> None:
        while job := self._jobs.get():
            self._run(job)
            with self._lock:
                self._open -= 1

    def close(self) -> None:
        for _ in self._threads:
            self._jobs.put(None)


class _Loop:
    """One event loop in a thread, for all async handlers of a queue."""

    def __init__(self, run: Callable[[Job], Any]) -> None:
        self._run = run
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="marq-loop", daemon=True
        )
        self._thread.start()

    def submit(self, job: Job) -> None:
        job.cancel = asyncio.run_coroutine_threadsafe(self._run(job), self._loop).cancel

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        if not self._thread.is_alive():
            self._loop.close()
