"""The one process that owns the children: starts them, restarts what dies, ends them in order.

The same code runs in the foreground of `marq up` and behind `marq up --detach`. All decisions are
taken in the main thread, one event after the other; helper threads only wait and report.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from marq import threads
from marq.embedded import children, files, tracker
from marq.embedded.broker import BrokerChild, Kit
from marq.embedded.layout import WantedLayout
from marq.embedded.process import ProcessId
from marq.embedded.seat import Seat
from marq.embedded.state import BrokerState, RuntimePhase, RuntimeState, TrackerState
from marq.embedded.tracker import TrackerChild
from marq.errors import RuntimeFailed
from marq.kafka.client import probe

MAX_QUICK_ENDS = 4
START_DEADLINE = 120.0
STOP_DEADLINE = 15.0
TRACKER_STOP_DEADLINE = 15.0
STANDS_STILL = "a batch that was due was not made"

SupervisorReport = Callable[[RuntimeState, str], None]
"""Called at every change with the new state and a sentence about it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A child's process is gone."""

    seat: Seat
    code: int


@dataclass(frozen=True, slots=True)
class Ready:
    """A message went through after this many starts of brokers."""

    starts: int


@dataclass(frozen=True, slots=True)
class KeepsTime:
    """The tracker has begun to keep time, or ceased to."""

    pid: int
    keeps_time: bool


@dataclass(frozen=True, slots=True)
class StopRequest:
    """Someone wants the runtime to end."""

    why: str


SupervisorEvent = Ended | Ready | KeepsTime | StopRequest


class Supervisor:
    """Runs the brokers of one kit, and their tracker, until told to stop."""

    def __init__(self, kit: Kit, wanted: WantedLayout, report: SupervisorReport) -> None:
        self.kit = kit
        self.wanted = wanted
        self.report = report
        self.phase: RuntimePhase = "starting"
        self.starts = 0
        self.events: queue.SimpleQueue[SupervisorEvent] = queue.SimpleQueue()
        self.stopping = threading.Event()
        self.brokers = [Seat(BrokerChild(kit, node)) for node in kit.layout.nodes]
        self.tracker: Seat | None = None
        """Taken when the brokers take messages for the first time."""
        self.keeps_time = False
        self.tracker_began = False
        """It has kept time since it was started."""
        self.note = "" if wanted.tracker else "the runtime was started without one"

    def run(self) -> None:
        """Return after an orderly stop; raise when the brokers cannot be kept running."""
        self.kit.home.failure.unlink(missing_ok=True)
        with self._signals():
            try:
                for seat in self.brokers:
                    self._start(seat)
                if self.wanted.parent:
                    self._thread(self._outlive_not, self.wanted.parent)
                self._changed("starting", f"starting {len(self.brokers)} broker(s)")
                self._watch(time.monotonic() + START_DEADLINE)
            except RuntimeFailed as failure:
                files.write(self.kit.home.failure, str(failure))  # nobody may be looking now
                raise
            finally:
                self._stop_all()

    def _watch(self, deadline: float) -> None:
        while True:
            match self._next_event(deadline):
                case StopRequest(why):
                    return self._changed("stopping", f"stopping: {why}")
                case Ended(seat, code):
                    self._on_end(seat, code)
                case Ready(starts) if starts == self.starts and self._complete():
                    self._on_ready()
                case Ready():
                    pass  # a broker was started since, or ended: the next start probes again
                case KeepsTime(pid, keeps_time):
                    self._on_keeps_time(pid, keeps_time)
                case None:
                    self._on_time(deadline)

    def _next_event(self, deadline: float) -> SupervisorEvent | None:
        times = [seat.due for seat in self._seats() if seat.due is not None]
        if self.phase == "starting":
            times.append(deadline)
        return self._event(min(times, default=None))

    def _event(self, until: float | None) -> SupervisorEvent | None:
        timeout = None if until is None else max(0.0, until - time.monotonic())
        with contextlib.suppress(queue.Empty):
            return self.events.get(timeout=timeout)
        return None

    def _seats(self) -> list[Seat]:
        return [*self.brokers, self.tracker] if self.tracker else self.brokers

    def _on_time(self, deadline: float) -> None:
        now = time.monotonic()
        if self.phase == "starting" and now >= deadline:
            raise RuntimeFailed(
                f"the broker(s) took no message within {START_DEADLINE:.0f} s: "
                f"see {self.kit.home.logs}."
            )
        for seat in self._seats():
            if seat.due is not None and seat.due <= now:
                seat.restarts += 1
                self._start(seat)
                self._changed(self.phase, f"{seat.child.name} started again")

    def _start(self, seat: Seat) -> None:
        process = seat.start()
        self._thread(self._wait_for_end, seat, process)
        if seat is not self.tracker:
            self.starts += 1
            if self._complete():
                self._thread(self._wait_until_ready, self.starts)

    def _complete(self) -> bool:
        return all(seat.process for seat in self.brokers)

    def _on_ready(self) -> None:
        self._changed("running", f"ready at {self.kit.layout.bootstrap_servers}")
        if self.wanted.tracker and not self.tracker:
            self._start_tracker()

    def _start_tracker(self) -> None:
        """Nothing waits for it: the brokers take messages while Spark gets up."""
        self.note = tracker.missing()
        if self.note:
            return self._changed(self.phase, f"no tracker: {self.note}")
        servers = self.kit.layout.bootstrap_servers
        child = TrackerChild(
            self.kit.home, servers, lambda *told: self.events.put(KeepsTime(*told))
        )
        self.tracker = Seat(child)
        self._start(self.tracker)
        self._changed(self.phase, "starting the tracker")

    def _on_keeps_time(self, pid: int, keeps_time: bool) -> None:
        if self.tracker and self.tracker.process and self.tracker.process.pid == pid:
            self.keeps_time, self.note = keeps_time, "" if keeps_time else STANDS_STILL
            self.tracker_began |= keeps_time
            told = "the tracker keeps time" if keeps_time else f"the tracker: {STANDS_STILL}"
            self._changed(self.phase, told)

    def _on_end(self, seat: Seat, code: int) -> None:
        how, said = seat.ended(code), seat.child.said()
        if seat is self.tracker:
            return self._on_tracker_end(seat, code, how)
        if seat.quick_ends >= MAX_QUICK_ENDS:
            raise RuntimeFailed(
                f"{how}, the {seat.quick_ends}th quick end in a row; it said:\n{said}"
            )
        wait = seat.wait_for_restart()
        phase: RuntimePhase = "starting" if self.phase == "starting" else "degraded"
        self._changed(phase, f"{how}; starting it again in {wait:.1f} s; it said:\n{said}")

    def _on_tracker_end(self, seat: Seat, code: int, how: str) -> None:
        """The brokers go on without it, and it is never given up unless another one has its job."""
        self.keeps_time = self.tracker_began = False
        if code == tracker.SUPERSEDED:
            self.note = f"{how}: another tracker has taken over, so it is not started again"
        else:
            wait = seat.wait_for_restart()
            self.note = f"{how}; starting it again in {wait:.1f} s; it said:\n{seat.child.said()}"
        self._changed(self.phase, self.note)

    def _changed(self, phase: RuntimePhase, news: str) -> None:
        self.phase = phase
        layout = self.kit.layout
        brokers = tuple(
            BrokerState(node.id, node.port, seat.identity, seat.restarts)
            for node, seat in zip(layout.nodes, self.brokers, strict=True)
        )
        state = RuntimeState(
            ProcessId.mine(), phase, layout.bootstrap_servers, brokers, self._tracker_state()
        )
        files.write(self.kit.home.state, state)
        self.report(state, news)

    def _tracker_state(self) -> TrackerState:
        identity = self.tracker.identity if self.tracker else None
        restarts = self.tracker.restarts if self.tracker else 0
        return TrackerState(self.wanted.tracker, identity, self.keeps_time, restarts, self.note)

    def _wait_for_end(self, seat: Seat, process: subprocess.Popen[bytes]) -> None:
        self.events.put(Ended(seat, children.wait(process)))

    def _wait_until_ready(self, starts: int) -> None:
        layout = self.kit.layout
        while self.starts == starts and not self.stopping.is_set():
            if probe.takes_messages(layout.bootstrap_servers, len(layout.nodes)):
                return self.events.put(Ready(starts))
            self.stopping.wait(0.1)

    def _outlive_not(self, parent: ProcessId) -> None:
        while parent.alive():
            if self.stopping.wait(1.0):
                return
        self.events.put(StopRequest(f"process {parent.pid}, for which it was started, is gone"))

    def _thread(self, target: Callable[..., None], *args: object) -> None:
        def died(error: BaseException) -> None:
            self.events.put(StopRequest(f"a thread of its own died: {error}"))

        threads.start(partial(target, *args), f"marq-{target.__name__.strip('_')}", died)

    def _stop_all(self) -> None:
        self.stopping.set()
        if self.tracker:
            # Before the brokers, without which it cannot end what it has begun. One that has not
            # begun need not be waited for.
            self._end([self.tracker], TRACKER_STOP_DEADLINE if self.tracker_began else 2.0)
        self._end(self.brokers, STOP_DEADLINE)

    def _end(self, seats: list[Seat], patience: float) -> None:
        for seat in seats:
            if seat.process:
                seat.process.terminate()
        self._wait_for_ends(seats, patience)
        for seat in seats:
            if seat.process:
                seat.process.kill()
        self._wait_for_ends(seats, patience)

    def _wait_for_ends(self, seats: list[Seat], patience: float) -> None:
        deadline = time.monotonic() + patience
        while any(seat.process for seat in seats) and time.monotonic() < deadline:
            match self._event(deadline):
                case Ended(seat, code):
                    seat.ended(code)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        def stop(number: int, _: object) -> None:
            self.events.put(
                StopRequest(signal.Signals(number).name)
            )  # the one queue a handler may use

        wanted = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        before = {number: signal.signal(number, stop) for number in wanted}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
