"""Worker processes of a test: started, watched, stopped, resumed and killed by their handle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from marq.embedded import tether
from tests.e2e.kafka_worker import Plan

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120.0


def command(plan: Plan) -> list[str]:
    about = msgspec.json.encode(plan).decode()
    return [sys.executable, "-m", "tests.e2e.kafka_worker", about]


class Event(NamedTuple):
    """What a worker said of one delivery."""

    word: str
    address: str
    message_id: str
    attempt: int
    at: float
    clock_ms: float
    """What time it was then for this machine, and so for its brokers."""


class WorkerProcess:
    """A worker, and what it has said so far."""

    def __init__(self, plan: Plan, environment: Mapping[str, str] | None = None) -> None:
        self.plan = plan
        self.lines: list[str] = []
        self.errors: list[str] = []
        self.events: list[Event] = []
        self._said = threading.Condition()
        self._process = subprocess.Popen(
            # Tied to this process: a test run that is killed leaves no worker behind.
            [sys.executable, tether.__file__, str(os.getpid()), *command(plan)],
            cwd=ROOT,
            env={
                **{name: value for name, value in os.environ.items() if name[:5] != "MARQ_"},
                **(environment or {}),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._readers = [threading.Thread(target=self._listen), threading.Thread(target=self._read)]
        for reader in self._readers:
            reader.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stdout:
            for line in stdout:
                with self._said:
                    self.lines.append(line.rstrip())
                    match line.split():
                        case ["begun" | "done" | "acked" | "lost" as word, address, name, attempt]:
                            at, clock_ms = time.monotonic(), time.time() * 1_000
                            event = Event(word, address, name, int(attempt), at, clock_ms)
                            self.events.append(event)
                    self._said.notify_all()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            for line in stderr:
                self.errors.append(line.rstrip())

    def heard(self, word: str) -> list[Event]:
        with self._said:
            return [event for event in self.events if event.word == word]

    def ids(self, word: str) -> set[str]:
        return {event.message_id for event in self.heard(word)}

    def wait_for(self, text: str) -> str:
        """The first line with that text."""
        found: list[str] = []

        def said() -> bool:
            found[:] = [line for line in self.lines if text in line]
            return bool(found)

        self.wait_until(said, f"{text!r} was not said")
        return found[0]

    def wait_until(self, true: Callable[[], bool], otherwise: str = "it did not happen") -> None:
        """Wait until what it said makes this true."""
        with self._said:
            happened = self._said.wait_for(true, PATIENCE_S)
        assert happened, f"{otherwise}: {self.lines[-5:]} {self.errors[-20:]}"

    @property
    def id(self) -> int:
        """Who it is in the log."""
        return int(self.wait_for("worker ").split()[1])

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def died(self) -> bool:
        """Whether it ended amid its work: killed, or by a message."""
        return bool(self._process.poll())

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self.wait()

    def terminate(self) -> None:
        """Ask it to stop, as an orchestrator does."""
        self._process.terminate()

    def wait(self) -> int:
        """Its exit code, when all it said has been read."""
        code = self._process.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join()
        return code

    def end(self) -> None:
        """However it stands: be over with it."""
        if self.running:
            self._process.kill()
        self.wait()


class Crew:
    """All workers of a test; a context manager that ends those that still run."""

    def __init__(self, servers: str, environment: Mapping[str, str] | None = None) -> None:
        self._servers = servers
        self._environment = environment
        self.members: list[WorkerProcess] = []

    def start(self, *queues: str, **plan: Any) -> WorkerProcess:
        asked = Plan(servers=self._servers, queues=list(queues), **plan)
        worker = WorkerProcess(asked, self._environment)
        self.members.append(worker)
        return worker

    def heard(self, word: str) -> list[Event]:
        return [event for event in self.heard_all() if event.word == word]

    def heard_all(self) -> list[Event]:
        return [event for worker in self.members for event in list(worker.events)]

    def ids(self, word: str) -> set[str]:
        return {event.message_id for event in self.heard(word)}

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self.members:
            worker.end()


def eventually(
    true: Callable[[], bool], within_s: float = PATIENCE_S, every_s: float = 0.05
) -> bool:
    """Whether it becomes true in time."""
    until = time.monotonic() + within_s
    while not (found := true()) and time.monotonic() < until:
        time.sleep(every_s)
    return found
