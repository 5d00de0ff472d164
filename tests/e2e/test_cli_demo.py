"""The demo does what it says, and ends by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_FEWER = "from marq.cli import app, demo_kafka; demo_kafka.MESSAGES = 6_000; app()"


def demo(directory: Path, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _FEWER, "demo", *options],
        cwd=directory, capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.e2e
def test_the_demo_in_memory(tmp_path: Path) -> None:
    shown = demo(tmp_path, "--memory-only")

    assert "it came back by itself: attempt 2, acked" in shown
    assert "at 10m sharp 1" in shown
    assert "Kafka" not in shown


@pytest.mark.e2e
@pytest.mark.java
def test_the_demo_on_kafka_loses_nothing_when_a_worker_is_killed(tmp_path: Path) -> None:
    shown = demo(tmp_path)

    assert "was killed by SIGKILL: another one starts" in shown
    assert "= 6,000 of 6,000 sent" in shown
    assert "of its messages stay open, 0 lost" in shown
