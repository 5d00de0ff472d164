"""Runs one queue's handler: its hands take messages for themselves and handle them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import count

from marq import threads
from marq.backend import Backend, Handing, Inbox
from marq.core.duration import text
from marq.core.subject import Subject
from marq.errors import QueueError
from marq.work.gate import Gate
from marq.work.handler import Handler
from marq.work.job import Deliveries, Job, give_back, settle
from marq.work.loop import Loop

log = logging.getLogger("marq.worker")

BATCH = 500
"""Messages a batch handler is handed at most."""
_TAKE_S, _LOOK_S = 0.1, 0.02
_LEASE_MS = 30_000


class Runner:
    """One queue's messages and the hands that handle them.

    A hand is a thread that takes a message and runs the handler, again and again: nothing is
    passed from thread to thread. There are as many as are busy and one that waits, up to the
    handler's concurrency. Async handlers run on a loop; they have one hand, which starts them.
    """

    def __init__(
        self, backend: Backend, name: str, inbox: Inbox, handler: Handler, gate: Gate
    ) -> None:
        self.name = name
        self.failure: BaseException | None = None
        self._backend = backend
        self._inbox = inbox
        self._handler = handler
        self._gate = gate
        self._loop = Loop(self._fail) if handler.is_async else None
        self._most = 1 if handler.is_async else handler.concurrency
        at_once = None if handler.is_async or handler.batch else 1
        common = {"kept_alive": True, "wanted": handler.wanted}
        self._handing = Handing(**common, at_once=at_once, alone=False)
        self._handing_alone = Handing(**common, at_once=1, alone=True)
        self._changed = threading.Condition()
        self._jobs: set[Job] = set()
        self._taking: set[int] = set()
        """Hands that wait for messages, or have some and no job for them yet."""
        self._rounds: dict[int, int] = {}
        """By hand, how often it has asked for messages."""
        self._quiet_since: dict[int, int] | None = None
        self._numbers = count()
        self._stopping = threading.Event()

    def start(self) -> None:
        threads.start(self._watch_over, f"marq-{self.name}", self._fail)
        self._add_hand()

    def idle(self) -> bool:
        """Whether nothing runs and nothing can; ask again until it is so.

        What is in flight and no job may be someone else's, or was taken this very moment: the
        hands' next rounds tell.
        """
        rounds = dict(self._rounds)
        stats = self._backend.stats(self.name)
        if self._jobs or (stats.ready and not self._paused()):
            self._quiet_since = None
        elif self._quiet_since is None:
            self._quiet_since = rounds
        return self._quiet_since is not None and (
            not stats.in_flight or self._all_have_taken_since(self._quiet_since)
        )

    def _all_have_taken_since(self, rounds: dict[int, int]) -> bool:
        return all(self._rounds.get(hand, was + 1) > was for hand, was in rounds.items())

    def _paused(self) -> bool:
        definition = self._backend.catalog().queue(self.name)
        return definition is not None and definition.paused

    def stop_taking(self) -> None:
        self._stopping.set()

    def wait_until_taken(self, until: float) -> None:
        """Wait, to that (monotonic) time at most, until it takes no more."""
        self._wait_until(lambda: not self._taking, until + _TAKE_S)

    def drain(self, until: float) -> None:
        """Let handlers finish until that (monotonic) time; give back what still runs."""
        self._wait_until(lambda: not self._jobs, until)
        for job in list(self._jobs):
            settle(job.deliveries, give_back)
            job.interrupt()
        if self._loop is not None:
            self._loop.close()

    def _wait_until(self, true: Callable[[], bool], until: float) -> None:
        with self._changed:
            while not true() and time.monotonic() < until:
                self._changed.wait(_LOOK_S)  # not every change notifies: that would take a lock

    def _fail(self, error: BaseException) -> None:
        """A thread of it has died: take no more. Whoever waits for the worker gets the error."""
        self.failure = error
        self._stopping.set()

    def raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    # Hands.

    def _add_hand(self) -> None:
        with self._changed:
            if len(self._rounds) >= self._most:
                return
            number = next(self._numbers)
            self._rounds[number] = 0
        threads.start(partial(self._work, number), f"marq-{self.name}-{number}", self._fail)

    def _work(self, hand: int) -> None:
        try:
            while self._goes_on(hand):
                if self._gate.enter():
                    try:
                        self._work_inside(hand)
                    finally:
                        self._gate.leave()
                else:
                    self._rounds[hand] += 1
        finally:
            with self._changed:
                self._rounds.pop(hand, None)

    def _goes_on(self, hand: int) -> bool:
        return hand in self._rounds and not self._stopping.is_set()

    def _work_inside(self, hand: int) -> None:
        """Take and handle until someone wants to be alone."""
        while not self._gate.closed and self._goes_on(hand):
            jobs = self._take(hand)
            self._rounds[hand] += 1
            if jobs:
                self._handle(jobs)
            else:
                self._send_home_if_another_waits(hand)
            if self._inbox.suspects():
                self._run_suspects(hand)

    def _send_home_if_another_waits(self, hand: int) -> None:
        with self._changed:
            rounds = self._rounds[hand]
            if self._taking:
                del self._rounds[hand]
            if not self._taking:  # it has just found work, and saw this one still here
                self._rounds[hand] = rounds

    def _take(self, hand: int) -> list[Job]:
        free = self._handler.concurrency - len(self._jobs)
        if free > 0:
            return self._begin(hand, self._handing, BATCH if self._handler.batch else free, _TAKE_S)
        with self._changed:
            self._changed.wait(_LOOK_S)
        return []

    def _begin(self, hand: int, handing: Handing, limit: int, wait_s: float) -> list[Job]:
        """The jobs of what could be taken.

        Without a lock, for this runs once a message: sets of threads' own things need none. What
        was taken is always either being taken or a job.
        """
        jobs: list[Job] = []
        self._taking.add(hand)
        try:
            taken = self._inbox.take(limit, wait_s, handing)
            if taken and self._stopping.is_set():
                settle(taken, give_back)
            elif taken:
                jobs = self._jobs_of(taken)
                self._jobs.update(jobs)
        finally:
            self._taking.discard(hand)
        if jobs and not self._taking and len(self._rounds) < self._most:
            self._add_hand()
        return jobs

    def _jobs_of(self, taken: Deliveries) -> list[Job]:
        now_ms = self._backend.now_ms()
        if self._handler.batch:
            return [Job(taken, now_ms)]
        return [Job([delivery], now_ms) for delivery in taken]

    def _handle(self, jobs: list[Job]) -> None:
        for job in jobs:
            if self._loop is not None:
                self._gate.bring_in()
                self._loop.submit(job, self._run_async(job))
            else:
                self._run(job)

    def _run(self, job: Job) -> None:
        try:
            job.run(self._handler, self.name)
            if self._handing.at_once == 1:
                self._run_what_is_at_hand(job)
        finally:
            self._done(job)

    def _run_what_is_at_hand(self, job: Job) -> None:
        """Go on with what goes with it, without taking each message anew.

        Other hands share it: a slow handler keeps nothing for itself. All of it begins within
        milliseconds, so what the time is and whether the hands are to stop is looked at once.
        """
        if not self._gate.closed and not self._stopping.is_set():
            job.started_ms = self._backend.now_ms()
            job.run_each(self._handler, self.name, self._inbox.at_hand(self._handing))

    async def _run_async(self, job: Job) -> None:
        try:
            await job.run_async(self._handler, self.name)
        finally:
            self._done(job)
            self._gate.leave()

    def _done(self, job: Job) -> None:
        self._jobs.discard(job)
        if self._loop is not None:
            with self._changed:
                self._changed.notify_all()

    def _run_suspects(self, hand: int) -> None:
        """Each may have killed its process: it runs alone, so that it takes nobody with it.

        Nor what others have done: that is in the log before it runs, and what it has done itself
        before others begin. Else an ack that dies with the process would count as an attempt more.
        """
        if not self._gate.close(self._lease_s(), self._stopping.is_set):
            return
        try:
            for _ in range(self._inbox.suspects()):
                if self._goes_on(hand):
                    self._run_suspect(hand)
            self._write_down()
        finally:
            self._gate.open()

    def _write_down(self) -> None:
        try:
            self._backend.flush(self._lease_s())
        except QueueError as error:  # no broker takes it now, or never: that ends no worker
            log.warning("not written", extra={"queue": self.name, "error": str(error)})

    def _run_suspect(self, hand: int) -> None:
        jobs = self._begin(hand, self._handing_alone, 1, 0)
        self._write_down()
        self._handle(jobs)
        with self._changed:
            self._changed.wait_for(lambda: not self._jobs.intersection(jobs))

    def _lease_s(self) -> float:
        definition = self._backend.catalog().definition_of(Subject(self.name))
        return (definition.lease_ms if definition else _LEASE_MS) / 1_000

    # Watching.

    def _watch_over(self) -> None:
        reason = f"timeout: the handler ran longer than {text(self._handler.timeout_ms)}"
        while not self._stopping.wait(_TAKE_S):
            limit_ms = self._backend.now_ms() - self._handler.timeout_ms
            for job in list(self._jobs):
                job.give_up(limit_ms, reason)
