"""The runtime's commands as real processes, whose lines a test can wait for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from marq import embedded
from marq.embedded.jvm import jars

MARQ = [sys.executable, "-m", "marq.cli"]


@dataclass
class Command:
    """A marq command that runs, and the lines it has printed so far."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    printed: threading.Condition = field(default_factory=threading.Condition)
    reader: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self.printed:
                self.lines.append(line.rstrip())
                self.printed.notify_all()

    def wait_for(self, text: str, within: float = 90) -> str:
        """The first line that holds `text`."""

        def found() -> str | None:
            return next((line for line in self.lines if text in line), None)

        with self.printed:
            line = self.printed.wait_for(found, within)
        assert line, f"{text!r} was not printed: {self.lines}"
        return line

    def said(self) -> str:
        """All it has printed, when it has ended by itself."""
        assert self.process.wait(60) is not None
        self.reader.join()
        return "\n".join(self.lines)

    def end(self, sign: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(sign)
        return self.process.wait(60)


Marq = Callable[..., Command]


@pytest.fixture
def marq() -> Iterator[Marq]:
    """Starts marq commands and ends those that still run, each by its own handle."""
    started: list[Command] = []

    def start(*arguments: object, **environment: str) -> Command:
        process = subprocess.Popen(
            [*MARQ, *map(str, arguments)],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(Command(process))
        return started[-1]

    yield start
    for command in started:
        command.end()
        command.reader.join()
        assert command.process.stdout is not None
        command.process.stdout.close()


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A directory for a runtime, which is stopped afterwards."""
    jars.resolve()
    yield tmp_path / "runtime"
    embedded.stop(tmp_path / "runtime")


def eventually(condition: Callable[[], bool], within: float) -> bool:
    deadline = time.monotonic() + within
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()
