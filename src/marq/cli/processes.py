"""Several worker processes and the one that watches them: restarts, reloads, an orderly end.

All decisions are taken in the main thread, one event after the other; helper threads only wait
and report. A Ctrl-C in the terminal reaches the parent alone, for each child has a session of its
own; the parent tells the children once, and a second time ends them.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from marq import threads
from marq.cli.changes import Watched
from marq.cli.seats import NEVER, Changed, PlaceEvent, Started, StopWanted, WorkerEnded, WorkerPlace

STEADY_S = 30.0
"""A process that worked this long had started well: its next end is the first again."""
MAX_FAILED_STARTS = 5
LONGEST_WAIT_S = 10.0
LOOK_S = 0.5
WRONG_USE = 2


class Processes:
    """Runs `count` worker processes until told to stop."""

    def __init__(
        self, targets: list[str], count: int, reload: bool, say: Callable[[str], None]
    ) -> None:
        self._targets = targets
        self._events: queue.SimpleQueue[PlaceEvent] = queue.SimpleQueue()
        self._seats = [WorkerPlace(number, self._events.put) for number in range(1, count + 1)]
        self._watched = Watched(Path.cwd()) if reload else None
        self._say = say
        self._worked = self._stopping = False
        self._code = 0

    def run(self) -> int:
        """The exit code, after everything has ended."""
        with self._signals():
            if self._watched is not None:
                look = partial(self._look, self._watched)
                threads.start(look, "marq-reload", lambda error: self._events.put(StopWanted()))
            self._fill()
            while not self._stopping or any(seat.process for seat in self._seats):
                self._act(self._next())
        return self._code

    def _next(self) -> PlaceEvent | None:
        dues = [s.due for s in self._seats if s.due is not None and s.due < NEVER]
        timeout = max(0.0, min(dues) - time.monotonic()) if dues else None
        with contextlib.suppress(queue.Empty):
            return self._events.get(timeout=timeout)
        return None

    def _act(self, event: PlaceEvent | None) -> None:
        match event:
            case Started(seat, process, files) if process is seat.process:
                self._on_started(seat, files)
            case WorkerEnded(seat, process, code) if process is seat.process:
                self._on_end(seat, code)
            case StopWanted():
                self._stop()
            case Changed(file):
                self._reload(file)
            case None:
                self._start_due()

    # Starting.

    def _fill(self) -> None:
        """Take free seats: one first, the others when it works, for all are made of the same."""
        works = any(seat.working and not seat.retired for seat in self._seats)
        for seat in self._seats if works else self._seats[:1]:
            if seat.free and not self._stopping:
                seat.start(self._targets)

    def _start_due(self) -> None:
        for seat in self._seats:
            if seat.due is not None and seat.due <= time.monotonic() and not self._stopping:
                seat.start(self._targets)

    def _on_started(self, seat: WorkerPlace, files: list[str]) -> None:
        seat.working = self._worked = True
        self._say(f"{seat} works")
        if self._watched is not None:
            self._watched.add(files)
        self._fill()

    # Ending.

    def _on_end(self, seat: WorkerPlace, code: int) -> None:
        worked, lived_s = seat.working, time.monotonic() - seat.since
        seat.clear()
        if self._stopping:
            self._code = self._code or int(code not in (0, -signal.SIGTERM))
        elif seat.retired:
            self._fill()
        else:
            seat.ends = 1 if worked and lived_s >= STEADY_S else seat.ends + 1
            self._replace(seat, code, worked)

    def _replace(self, seat: WorkerPlace, code: int, worked: bool) -> None:
        news = f"{seat} {_how(code)}"
        if self._watched is not None and not worked:
            seat.due = NEVER
            self._say(f"{news}: waiting for a file to change")
        elif code == WRONG_USE and not self._worked:
            self._give_up(code, news)
        elif not worked and seat.ends >= MAX_FAILED_STARTS:
            self._give_up(1, f"{news}, after {seat.ends} failed starts in a row: giving up")
        else:
            wait_s = min(0.5 * 2.0 ** (seat.ends - 1), LONGEST_WAIT_S)
            seat.due = time.monotonic() + wait_s
            self._say(f"{news}: another one starts in {wait_s:.1f} s")

    def _give_up(self, code: int, news: str) -> None:
        self._say(news)
        self._code = code
        self._stop()

    def _stop(self) -> None:
        """First let them drain, then end them."""
        again, self._stopping = self._stopping, True
        if again:
            self._code = 1
        elif any(seat.process for seat in self._seats):
            self._say("stopping: handlers may finish; once more ends them at once")
        for seat in self._seats:
            seat.signal(signal.SIGKILL if again else signal.SIGTERM)

    # Reloading.

    def _look(self, watched: Watched) -> None:
        while not self._stopping:
            time.sleep(LOOK_S)
            if file := watched.changed():
                self._events.put(Changed(file))

    def _reload(self, file: str) -> None:
        if not self._stopping:
            self._say(f"{file} changed: starting afresh")
            for seat in self._seats:
                seat.retire()
            self._fill()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        def stop(*_: object) -> None:
            self._events.put(StopWanted())  # the one queue a handler may use

        wanted = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        before = {number: signal.signal(number, stop) for number in wanted}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _how(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
