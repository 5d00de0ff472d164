"""A Spark standalone cluster for a test: a master and workers from the pyspark distribution."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import psutil  # type: ignore[import-untyped]
import pyspark

from marq.embedded import ports, tether

START_S = 120.0
_EXECUTOR = "CoarseGrainedExecutorBackend"


class SparkCluster:
    """Each worker has one core: so a tracker has an executor on each of two."""

    def __init__(self, directory: Path, workers: int = 2) -> None:
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        (port,) = ports.choose(1, random.Random())
        self.master = f"spark://{ports.HOST}:{port}"
        address = ["--host", ports.HOST, "--webui-port", "0"]
        self._start("org.apache.spark.deploy.master.Master", *address, "--port", str(port))
        self._wait_until(lambda: not ports.is_free(port))
        size = ["--cores", "1", "--memory", "1g"]
        for number in range(workers):
            where = ["--work-dir", str(directory / f"worker-{number}")]
            self._start(
                "org.apache.spark.deploy.worker.Worker", *address, *size, *where, self.master
            )
        self._wait_until(lambda: self._said().count("Registering worker") == workers)

    def _start(self, name: str, *options: str) -> None:
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        command = [str(program), name, *options]
        log = self._directory / f"{len(self._processes)}.log"
        with log.open("wb") as printed:
            self._processes.append(
                subprocess.Popen(
                    # Tied to this process: a test run that is killed leaves nothing behind.
                    [sys.executable, tether.__file__, str(os.getpid()), *command],
                    env={**os.environ, "SPARK_LOCAL_IP": ports.HOST, "SPARK_DAEMON_MEMORY": "256m"},
                    stdin=subprocess.DEVNULL,
                    stdout=printed,
                    stderr=subprocess.STDOUT,
                )
            )

    def _wait_until(self, true: Callable[[], bool]) -> None:
        until = time.monotonic() + START_S
        while not true():
            assert time.monotonic() < until, self._said()
            time.sleep(0.1)

    def _said(self) -> str:
        """What the master said."""
        return (self._directory / "0.log").read_text()

    def executors(self) -> list[psutil.Process]:
        """The executors that run now."""
        found = []
        for worker in self._processes[1:]:
            with contextlib.suppress(psutil.NoSuchProcess):
                for child in psutil.Process(worker.pid).children(recursive=True):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        if any(_EXECUTOR in word for word in child.cmdline()):
                            found.append(child)
        return found

    def stop(self) -> None:
        """SIGKILL to all of it; again is harmless."""
        for process in reversed(self._processes):
            with contextlib.suppress(psutil.NoSuchProcess):
                for each in psutil.Process(process.pid).children(recursive=True):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        each.kill()
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
