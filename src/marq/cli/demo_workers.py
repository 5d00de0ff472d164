"""The demo's worker processes, started as anyone would start them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import psutil  # type: ignore[import-untyped]

from marq import threads
from marq.cli.demo_stage import say
from marq.errors import RuntimeFailed

PROCESSES = 3
PATIENCE_S = 240.0
"""For a machine on which much else goes on."""


class Workers:
    """`marq worker` with several processes."""

    def __init__(self, url: str, directory: str) -> None:
        command = ["worker", "marq.cli.demo_orders:orders", "--processes", str(PROCESSES)]
        say(f"$ marq {' '.join(command)}")
        self._working = threading.Semaphore(0)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "marq.cli", *command],
            env={**os.environ, "MARQ_URL": url}, cwd=directory, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        threads.start(self._repeat, "marq-demo-workers", lambda error: self._process.kill())

    def _repeat(self) -> None:
        for line in self._process.stderr or ():
            if line.startswith("marq: "):
                say(f"  {line.rstrip()}")
            if line.endswith("works\n"):
                self._working.release()

    def wait_until_working(self) -> None:
        """All of them."""
        for _ in range(PROCESSES):
            if not self._working.acquire(timeout=PATIENCE_S):
                raise stuck("the workers work")

    def kill(self, pid: int) -> None:
        """End one as the kernel would for want of memory."""
        [victim] = [
            each for each in psutil.Process(self._process.pid).children() if each.pid == pid
        ]
        victim.send_signal(signal.SIGKILL)

    def close(self) -> None:
        """SIGTERM: handlers finish, what is fetched ahead is given back."""
        self._process.terminate()
        self._process.wait(PATIENCE_S)


def wait_until(enough: Callable[[], bool], what: str) -> None:
    """Look again and again."""
    deadline = time.monotonic() + PATIENCE_S
    while not enough():
        if time.monotonic() > deadline:
            raise stuck(what)
        time.sleep(0.1)


def stuck(what: str) -> RuntimeFailed:
    """What the demo says when something does not happen."""
    return RuntimeFailed(f"the demo waited in vain until {what}: is the machine very busy?")
