"""An event that a signal handler may set."""

from __future__ import annotations

import re
import signal
import threading
from pathlib import Path

import marq
from marq.stopping import Stopping

SOURCE = Path(marq.__file__).parent


def test_it_is_set_once_for_everyone_who_waits() -> None:
    stopping = Stopping()
    assert not stopping.wait(0)
    waiting = [threading.Thread(target=stopping.wait, args=(30,)) for _ in range(3)]
    for thread in waiting:
        thread.start()

    stopping.set()

    for thread in waiting:
        thread.join(30)
        assert not thread.is_alive()
    assert stopping.is_set()
    assert stopping.wait()


def test_a_signal_may_set_it_in_the_midst_of_a_wait() -> None:
    stopping = Stopping()
    rang = 0

    def ring(number: int, frame: object) -> None:
        nonlocal rang
        rang += 1
        stopping.set()

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
    try:
        while rang < 2_000:
            stopping._set = False
            stopping.wait(0.001)
        while not stopping.wait(0.001):  # what rang before it was set back was for nothing
            pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_no_signal_handler_sets_what_may_not_be_set_there() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        if re.search(r"\bsignal\.signal\(", text) and path.name != "supervisor.py":
            assert "threading.Event(" not in text, path


# The supervisor's own event is not set by its handler, but by what it does then.
