"""Start, join, stop and look at a runtime from any process."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from marq.embedded import detached, files, foreground, layout, state
from marq.embedded.files import RuntimeHome
from marq.embedded.jvm import jars
from marq.embedded.layout import WantedLayout
from marq.embedded.supervisor import START_DEADLINE, STOP_DEADLINE, TRACKER_STOP_DEADLINE
from marq.embedded.tracker import missing as tracker_missing
from marq.errors import ConfigError, RuntimeFailed

Directory = str | os.PathLike[str] | None


@dataclass(frozen=True, slots=True)
class Runtime:
    """A running local Kafka; any number of processes may hold the same one."""

    directory: Path
    bootstrap_servers: str
    joined: bool
    """Whether it ran already."""

    def stop(self) -> None:
        """End it for everyone."""
        stop(self.directory)


def start(
    directory: Directory = None,
    brokers: int | None = None,
    port: int | None = None,
    *,
    tracker: bool = True,
    parent: int | None = None,
) -> Runtime:
    """Join the runtime of a directory, or start it detached; returns when it takes messages.

    Without `brokers` it has as many as the directory was made with, a new one has 1. The tracker
    takes some seconds more: `status().tracker.keeps_time` tells. One that is started for a
    `parent`, a pid, ends with that process.
    """
    home, wanted = files.home(directory), layout.wanted(brokers, port, tracker, parent)
    while True:
        joined = join(home, wanted)
        if joined:
            return joined
        fetch(wanted)
        answer = detached.launch(home, wanted)
        match answer.outcome:
            case "ready":
                return Runtime(home.path, answer.text, joined=False)
            case "busy":
                time.sleep(0.05)  # another start was faster: join that one
            case "config":
                raise ConfigError(answer.text)
            case "failed":
                raise RuntimeFailed(answer.text)


def fetch(wanted: WantedLayout) -> None:
    """Bring the jars here, not in the background: the user sees the progress."""
    jars.resolve()
    if wanted.tracker and not tracker_missing():
        with contextlib.suppress(RuntimeFailed):  # it can run without; the tracker will say why
            jars.resolve("spark")


def join(home: RuntimeHome, wanted: WantedLayout) -> Runtime | None:
    """The runtime that runs in `home`, as soon as it is ready; None when none does."""
    deadline = time.monotonic() + START_DEADLINE
    while time.monotonic() < deadline:
        made, running = layout.read(home), state.of_living(home)
        if running is None:
            return None
        if made and running.phase in ("running", "degraded"):
            layout.check(made, wanted)
            return Runtime(home.path, running.bootstrap_servers, joined=True)
        time.sleep(0.05)
    raise RuntimeFailed(
        f"the runtime in {home.path} was not ready within {START_DEADLINE:.0f} s: "
        f"see {home.logs}, or stop it with marq down."
    )


def stop(directory: Directory = None) -> bool:
    """End the runtime of a directory in order; False when none ran."""
    home = files.home(directory)
    layout.read(home)  # refuses a foreign directory
    found = state.read(home)
    if found is None:
        return False
    ran = found.supervisor.alive()
    # Killed after that: then the kernel ends its children.
    found.supervisor.end(TRACKER_STOP_DEADLINE + STOP_DEADLINE + 10)
    with contextlib.suppress(foreground.AlreadyRunning), foreground.exclusive(home):
        state.clear_stale(home)  # of one that was killed; after an orderly stop nothing is left
    return ran


def status(directory: Directory = None) -> state.Status:
    """The runtime of a directory at this moment."""
    return state.status(files.home(directory))
