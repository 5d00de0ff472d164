"""One worker process's place, and what can happen to the process that has it."""

from __future__ import annotations

import contextlib
import json
import math
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from marq import threads

Process = subprocess.Popen[bytes]
NEVER = math.inf


@dataclass(frozen=True, slots=True)
class Started:
    """A process works."""

    seat: WorkerPlace
    process: Process
    files: list[str]
    """What it is made of."""


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    """A process is gone."""

    seat: WorkerPlace
    process: Process
    code: int


@dataclass(frozen=True, slots=True)
class StopWanted:
    """Someone wants everything to end."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A Python file is another one now."""

    file: str


PlaceEvent = Started | WorkerEnded | StopWanted | Changed
PlaceReport = Callable[[PlaceEvent], None]


@dataclass(slots=True, eq=False)
class WorkerPlace:
    """Taken by one process after the other."""

    number: int
    report: PlaceReport = field(repr=False)
    process: Process | None = None
    pid: int = 0
    working: bool = False
    since: float = 0.0
    ends: int = 0
    """Unexpected ends in a row."""
    due: float | None = None
    """When the next one starts; `NEVER`: not before a file changes."""
    retired: bool = False
    """Told to end, to make room for new code."""
    line: socket.socket | None = None
    """While it is open, the process knows that its parent lives."""

    @property
    def free(self) -> bool:
        return self.process is None and self.due is None

    def start(self, targets: list[str]) -> None:
        """Start a fresh interpreter, in a session of its own."""
        self.line, its = socket.socketpair()
        command = [sys.executable, "-m", "marq.cli", "worker", *targets]
        self.process = subprocess.Popen(
            [*command, "--parent", str(its.fileno())],
            pass_fds=[its.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        its.close()
        self.pid, self.since, self.due = self.process.pid, time.monotonic(), None
        self.working = self.retired = False
        self._thread(partial(self._wait_for_start, self.process, self.line))
        self._thread(partial(self._wait_for_end, self.process))

    def _thread(self, run: Callable[[], None]) -> None:
        threads.start(run, f"marq-seat-{self.number}", lambda error: self.report(StopWanted()))

    def _wait_for_start(self, process: Process, line: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), line.makefile() as lines:
            if told := lines.readline():
                self.report(Started(self, process, json.loads(told)["files"]))

    def _wait_for_end(self, process: Process) -> None:
        self.report(WorkerEnded(self, process, process.wait()))

    def clear(self) -> None:
        """The process is gone."""
        self.process, self.working = None, False
        if self.line is not None:
            self.line.close()

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)

    def retire(self) -> None:
        """Have it end, and count that as nothing."""
        self.due, self.ends = None, 0
        if self.process is not None and not self.retired:
            self.retired = True
            self.signal(signal.SIGTERM)

    def __str__(self) -> str:
        return f"worker process {self.number} (pid {self.pid})"
