"""The tracker as a child process: started beside the brokers, its log kept small, heard when ready.

It is another program to this package, `marq tracker`: nothing here knows Spark.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from marq import threads
from marq.embedded import children
from marq.embedded.files import RuntimeHome
from marq.embedded.jvm import jars

SUPERSEDED = 3
"""Its exit code when another tracker has taken over: it must not be started again."""
KEEPS_TIME = b"marq: the tracker keeps time"
KEEPS_NO_TIME = b"marq: the tracker keeps no time"
LOG_LIMIT = 10 * 1024 * 1024
_QUICK_START = "-XX:TieredStopAtLevel=1"
"""Compiles little and soon: Spark is up for 31 s of CPU instead of 44, and idles with no more."""


def missing() -> str:
    """Why no tracker can be started here; nothing if one can."""
    if importlib.util.find_spec("pyspark") is None:
        return "Spark is not installed: pip install 'marq[spark]', then marq down and marq up"
    return ""


@dataclass(frozen=True, slots=True)
class TrackerChild:
    """The tracker of one runtime."""

    home: RuntimeHome
    servers: str
    on_time: Callable[[int, bool], None]
    """Called with its pid, from another thread, when it begins to keep time and when it ceases."""

    @property
    def name(self) -> str:
        return "the tracker"

    def spawn(self) -> subprocess.Popen[bytes]:
        # -P: what lies in the current directory must not shadow a module.
        command = [sys.executable, "-P", "-m", "marq.cli", "tracker"]
        options = ["--url", f"kafka://{self.servers}", "--checkpoint", str(self.home.tracker)]
        process = children.spawn(
            [*command, *options], environment(), subprocess.PIPE, self.home.path
        )
        # Unheard, it would stand still as soon as nobody reads what it prints: better it is
        # started again.
        listen = partial(self._listen, process)
        threads.start(listen, "marq-tracker-log", lambda error: process.kill())
        return process

    def said(self) -> str:
        return "\n".join(children.tail(self.home.tracker_log, 8))

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        """Keep what it prints, and notice the lines that count."""
        assert process.stdout is not None
        with process.stdout as printed:
            for line in printed:
                append(self.home.tracker_log, line)
                if line.startswith((KEEPS_TIME, KEEPS_NO_TIME)):
                    self.on_time(process.pid, line.startswith(KEEPS_TIME))


def append(log: Path, line: bytes) -> None:
    """Add a line to a log that never has more than the last and the one before."""
    try:
        if log.exists() and log.stat().st_size > LOG_LIMIT:
            os.replace(log, log.with_name(log.name + ".1"))
        with log.open("ab") as file:
            file.write(line)
    except OSError:
        pass  # a full disk: it must be read on all the same, or the tracker would stand still


def environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Not the settings of whoever happened to start the runtime: it is everyone's."""
    others = {name: value for name, value in environ.items() if not name.startswith("MARQ_")}
    return {
        **others,
        "MARQ_CACHE_DIR": str(jars.cache_directory()),
        "JDK_JAVA_OPTIONS": f"{_QUICK_START} {environ.get('JDK_JAVA_OPTIONS', '')}".strip(),
    }
