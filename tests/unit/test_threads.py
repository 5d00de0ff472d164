"""Threads: started in one place, so that none ends in silence."""

from __future__ import annotations

import logging
import re
import threading
from pathlib import Path

import pytest

import marq
from marq import threads

SOURCE = Path(marq.__file__).parent


def test_a_thread_that_dies_says_so_and_tells_its_owner(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[BaseException] = []

    def die() -> None:
        raise SystemExit("of whatever it is")

    with caplog.at_level(logging.ERROR, "marq.threads"):
        threads.start(die, "marq-doomed", heard.append).join(10)

    assert isinstance(heard[0], SystemExit)
    assert "thread died" in caplog.text


def test_no_thread_keeps_the_process() -> None:
    over = threading.Event()

    thread = threads.start(lambda: over.wait(10), "marq-patient", print)

    assert thread.daemon
    assert thread.name == "marq-patient"
    over.set()


def test_threads_are_started_in_one_place() -> None:
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if re.search(r"\b(Thread|Timer|start_new_thread)\(", path.read_text())
    }

    assert found == {"threads.py"}
