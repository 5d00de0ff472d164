"""The tracker as a process of a test: started, killed, paused and stopped by its handle."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import psutil  # type: ignore[import-untyped]
from prometheus_client.parser import text_string_to_metric_families

from marq.cli import tracker
from marq.embedded import ports, tether

READY_S = 240.0
COMMAND = (sys.executable, "-m", "marq.cli", "tracker")
SUBMITTED = (
    str(Path(sys.executable).with_name("spark-submit")),
    "--master",
    "local[2]",
    tracker.__file__,
)
_KEEPS_TIME = "the tracker keeps time"


class TrackerProcess:
    """One `marq tracker`, in a process group of its own: its JVM and Python workers die with it."""

    def __init__(
        self,
        servers: str,
        checkpoint: Path,
        environment: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
        command: Sequence[str] = COMMAND,
    ) -> None:
        (self._port,) = ports.choose(1, random.Random())
        where = ["--url", f"kafka://{servers}", "--checkpoint", str(checkpoint)]
        own = [*where, "--metrics-port", str(self._port), *options]
        self._command = [*command, *own]
        self._environment = dict(environment or {})
        self.log = checkpoint.with_suffix(".log")
        self._lines: list[str] = []
        self._said = threading.Condition()
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            # Tied to this process: a test run that is killed leaves no tracker behind.
            [sys.executable, tether.__file__, str(os.getpid()), *self._command],
            env={**os.environ, **self._environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._listener = threading.Thread(target=self._listen, args=(self._process,), daemon=True)
        self._listener.start()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with self.log.open("a") as file, process.stdout as lines:
            for line in lines:
                file.write(line)
                file.flush()
                with self._said:
                    self._lines.append(line)
                    self._said.notify_all()

    def wait_until_ready(self, within_s: float = READY_S) -> Self:
        """Wait for its first batch."""
        return self.wait_until_told(_KEEPS_TIME, within_s)

    def wait_until_told(self, sentence: str, within_s: float = READY_S) -> Self:
        """Wait for this in its log."""
        with self._said:
            self._said.wait_for(
                lambda: self._tells(sentence) or self._process.poll() is not None, within_s
            )
        assert self._tells(sentence), f"the tracker does not say {sentence!r}: {self.tail()}"
        return self

    def _tells(self, sentence: str) -> bool:
        return any(sentence in line for line in self._lines)

    def tail(self) -> str:
        """What it said last."""
        return "".join(self._lines[-15:])

    def metrics(self, **labels: str) -> dict[str, float]:
        """What it tells Prometheus under these labels, sums over the others."""
        url = f"http://127.0.0.1:{self._port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            text = answer.read().decode()
        found: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in (s for s in family.samples if labels.items() <= s.labels.items()):
                found[sample.name] = found.get(sample.name, 0.0) + sample.value
        return found

    def kill(self) -> None:
        """SIGKILL to it and everything it started."""
        family = self.family()
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(family, 10)
        self._process.wait(10)
        self._listener.join(10)

    def family(self) -> list[psutil.Process]:
        """It and everything it started."""
        try:
            own = psutil.Process(self._process.pid)
            return [own, *own.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def restart(self) -> Self:
        """Start it again, with the same checkpoint."""
        self._lines.clear()
        self._start()
        return self

    def signal(self, number: signal.Signals) -> None:
        """A signal to it and everything it started."""
        for process in self.family():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def wait(self, timeout_s: float = 60.0) -> int:
        """Its exit code, when it ends by itself."""
        return self._process.wait(timeout_s)

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if that is not heard; again is harmless."""
        if self.running:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(25)
        self.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
