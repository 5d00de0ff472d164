"""The one process that owns the brokers: starts them, restarts what dies, ends them in order.

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
from dataclasses import dataclass, field

from marq.embedded import broker, files
from marq.embedded.broker import Kit
from marq.embedded.layout import Node
from marq.embedded.process import ProcessId
from marq.embedded.state import BrokerState, Phase, State
from marq.errors import RuntimeFailed
from marq.kafka import probe

STEADY = 30.0
"""A broker that lived this many seconds had started well: its next end is the first again."""
MAX_QUICK_ENDS = 4
START_DEADLINE = 120.0
STOP_DEADLINE = 15.0

Report = Callable[[State, str], None]
"""Called at every change with the new state and a sentence about it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A broker's process is gone."""

    node: int
    code: int


@dataclass(frozen=True, slots=True)
class Ready:
    """A message went through after this many starts of brokers."""

    starts: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Someone wants the runtime to end."""

    why: str


@dataclass(slots=True)
class Seat:
    """One broker's place, taken by one process after the other."""

    node: Node
    process: subprocess.Popen[bytes] | None = None
    identity: ProcessId | None = None
    started: float = 0.0
    restarts: int = 0
    quick_ends: int = 0
    due: float | None = None


def backoff(quick_ends: int) -> float:
    """Seconds to wait before the next start."""
    return min(0.5 * 2.0 ** (quick_ends - 1), 10.0)


@dataclass(slots=True)
class Supervisor:
    """Runs the brokers of one kit until told to stop."""

    kit: Kit
    report: Report
    phase: Phase = "starting"
    starts: int = 0
    seats: dict[int, Seat] = field(init=False)
    events: queue.SimpleQueue[Ended | Ready | Stop] = field(default_factory=queue.SimpleQueue)
    stopping: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.seats = {node.id: Seat(node) for node in self.kit.layout.nodes}

    def run(self) -> None:
        """Return after an orderly stop; raise when the brokers cannot be kept running."""
        self.kit.home.failure.unlink(missing_ok=True)
        with self._signals():
            try:
                for seat in self.seats.values():
                    self._start(seat)
                self._changed("starting", f"starting {len(self.seats)} broker(s)")
                self._watch(time.monotonic() + START_DEADLINE)
            except RuntimeFailed as failure:
                files.write(self.kit.home.failure, str(failure))  # nobody may be looking now
                raise
            finally:
                self._stop_all()

    def _watch(self, deadline: float) -> None:
        while True:
            match self._next_event(deadline):
                case Stop(why):
                    return self._changed("stopping", f"stopping: {why}")
                case Ended(node, code):
                    self._on_end(self.seats[node], code)
                case Ready(starts) if starts == self.starts and self._complete():
                    self._changed("running", f"ready at {self.kit.layout.bootstrap_servers}")
                case Ready():
                    pass  # a broker was started since, or ended: the next start probes again
                case None:
                    self._on_time(deadline)

    def _next_event(self, deadline: float) -> Ended | Ready | Stop | None:
        times = [seat.due for seat in self.seats.values() if seat.due is not None]
        if self.phase == "starting":
            times.append(deadline)
        timeout = max(0.0, min(times) - time.monotonic()) if times else None
        with contextlib.suppress(queue.Empty):
            return self.events.get(timeout=timeout)
        return None

    def _on_time(self, deadline: float) -> None:
        now = time.monotonic()
        if self.phase == "starting" and now >= deadline:
            raise RuntimeFailed(
                f"the broker(s) took no message within {START_DEADLINE:.0f} s: "
                f"see {self.kit.home.logs}."
            )
        for seat in self.seats.values():
            if seat.due is not None and seat.due <= now:
                seat.restarts += 1
                self._start(seat)
                self._changed(self.phase, f"broker {seat.node.id} started again")

    def _start(self, seat: Seat) -> None:
        seat.process = broker.spawn(self.kit, seat.node)
        seat.identity = ProcessId.of(seat.process.pid)
        seat.started, seat.due = time.monotonic(), None
        self.starts += 1
        self._thread(self._wait_for_end, seat.node.id, seat.process)
        if self._complete():
            self._thread(self._wait_until_ready, self.starts)

    def _complete(self) -> bool:
        return all(seat.process for seat in self.seats.values())

    def _wait_for_end(self, node: int, process: subprocess.Popen[bytes]) -> None:
        self.events.put(Ended(node, process.wait()))

    def _wait_until_ready(self, starts: int) -> None:
        layout = self.kit.layout
        while self.starts == starts and not self.stopping.is_set():
            if probe.takes_messages(layout.bootstrap_servers, len(layout.nodes)):
                return self.events.put(Ready(starts))
            self.stopping.wait(0.1)

    def _thread(self, target: Callable[..., None], *args: object) -> None:
        threading.Thread(target=target, args=args, daemon=True).start()

    def _on_end(self, seat: Seat, code: int) -> None:
        lived = time.monotonic() - seat.started
        pid = seat.identity.pid if seat.identity else 0
        seat.process = seat.identity = None
        seat.quick_ends = 1 if lived >= STEADY else seat.quick_ends + 1
        name = f"broker {seat.node.id} (pid {pid}) {broker.how_it_ended(code)}"
        tail = broker.last_lines(self.kit.home, seat.node.id)
        if seat.quick_ends >= MAX_QUICK_ENDS:
            raise RuntimeFailed(
                f"{name}, the {seat.quick_ends}th quick end in a row; it said:\n{tail}"
            )
        wait = backoff(seat.quick_ends)
        seat.due = time.monotonic() + wait
        phase: Phase = "starting" if self.phase == "starting" else "degraded"
        self._changed(phase, f"{name}; starting it again in {wait:.1f} s; it said:\n{tail}")

    def _changed(self, phase: Phase, news: str) -> None:
        self.phase = phase
        seats = self.seats.values()
        brokers = tuple(BrokerState(s.node.id, s.node.port, s.identity, s.restarts) for s in seats)
        servers = self.kit.layout.bootstrap_servers
        state = State(ProcessId.mine(), phase, servers, brokers)
        files.write(self.kit.home.state, state)
        self.report(state, news)

    def _stop_all(self) -> None:
        self.stopping.set()
        running = [seat.process for seat in self.seats.values() if seat.process]
        for process in running:
            process.terminate()
        deadline = time.monotonic() + STOP_DEADLINE
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
        for process in running:
            process.kill()
            process.wait()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        def stop(number: int, _: object) -> None:
            self.events.put(Stop(signal.Signals(number).name))  # the one queue a handler may use

        wanted = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        before = {number: signal.signal(number, stop) for number in wanted}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
