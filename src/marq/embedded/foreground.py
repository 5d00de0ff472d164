"""Makes a directory ready and runs its brokers and tracker below this process."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import filelock

from marq.embedded import broker, files, layout, state
from marq.embedded.files import RuntimeHome
from marq.embedded.jvm import jars, java
from marq.embedded.layout import WantedLayout
from marq.embedded.process import ProcessId
from marq.embedded.state import RuntimeState
from marq.embedded.supervisor import Supervisor, SupervisorReport


class AlreadyRunning(Exception):
    """Another supervisor holds the directory."""


def supervise(home: RuntimeHome, wanted: WantedLayout, report: SupervisorReport) -> None:
    """Run it until told to stop; from the main thread, which the children are tied to."""
    layout.read(home)  # refuses a foreign directory before anything is written
    program, checked = java.find(), jars.resolve()
    with files.writing(home.path):
        files.make_private(home.path)
        with exclusive(home):
            state.clear_stale(home)
            # Written before anything else: from here on others wait for this process.
            files.write(home.state, RuntimeState(ProcessId.mine(), "starting", "", ()))
            try:
                made = layout.settle(home, wanted, random.Random())
                for each in (home.logs, home.tracker):
                    files.make_private(each)
                kit = broker.Kit(program, checked, home, made)
                broker.format_storage(kit)
                Supervisor(kit, wanted, report).run()
            finally:
                home.state.unlink(missing_ok=True)


@contextlib.contextmanager
def exclusive(home: RuntimeHome) -> Iterator[None]:
    """The right to start brokers in `home`; whoever dies loses it."""
    lock = filelock.FileLock(home.lock)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise AlreadyRunning from None
    try:
        yield
    finally:
        lock.release()
