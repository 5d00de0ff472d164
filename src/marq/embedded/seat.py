"""A child's place: taken by one process after the other, each waiting longer than the last."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from typing import Protocol

from marq.embedded import children
from marq.embedded.process import ProcessId

STEADY = 30.0
"""A child that lived this many seconds had started well: its next end is the first again."""


class Child(Protocol):
    """What can be started again and again: a broker, the tracker."""

    @property
    def name(self) -> str:
        """What the user knows it by."""

    def spawn(self) -> subprocess.Popen[bytes]:
        """Start it, tied to this process."""

    def said(self) -> str:
        """The last lines of what it logged."""


@dataclass(slots=True)
class Seat:
    """One child's place."""

    child: Child
    process: subprocess.Popen[bytes] | None = None
    identity: ProcessId | None = None
    started: float = 0.0
    restarts: int = 0
    quick_ends: int = 0
    due: float | None = None
    """When it is to be started again."""

    def start(self) -> subprocess.Popen[bytes]:
        """Give the place to a new process."""
        self.process = self.child.spawn()
        self.identity = ProcessId.of(self.process.pid)
        self.started, self.due = time.monotonic(), None
        return self.process

    def ended(self, code: int) -> str:
        """Free the place; a sentence about how its process ended."""
        pid = self.identity.pid if self.identity else 0
        lived = time.monotonic() - self.started
        self.process = self.identity = None
        self.quick_ends = 1 if lived >= STEADY else self.quick_ends + 1
        return f"{self.child.name} (pid {pid}) {children.how_it_ended(code)}"

    def wait_for_restart(self) -> float:
        """Start it again later; in how many seconds."""
        wait = backoff(self.quick_ends)
        self.due = time.monotonic() + wait
        return wait


def backoff(quick_ends: int) -> float:
    """Seconds to wait before the next start."""
    return min(0.5 * 2.0 ** min(quick_ends - 1, 10), 10.0)
