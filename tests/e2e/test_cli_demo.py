"""The demo does what it says, and ends by itself."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

_FEWER = "from marq.cli import app, demo_kafka; demo_kafka.MESSAGES = 6_000; app()"


def demo(directory: Path, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _FEWER, "demo", *options],
        cwd=directory, capture_output=True, text=True, timeout=600, check=False,
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
def test_the_demo_tells_a_program_its_summary_alone(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "marq.cli", "demo", "--memory-only", "--json"],
        cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip

    assert json.loads(done.stdout)["redelivered after its worker died"] == "attempt 2"
    assert "it came back by itself: attempt 2, acked" in done.stderr


@pytest.mark.e2e
@pytest.mark.java
@pytest.mark.timeout(620)
def test_what_a_killed_worker_held_comes_back_in_the_demo_on_kafka(tmp_path: Path) -> None:
    shown = demo(tmp_path)

    assert "was killed by SIGKILL: another one starts" in shown
    assert "6,000 of 6,000 handled, nothing is open" in shown
    held = re.search(r"pid (\d+) has begun (.+); none of them is acked", shown)
    assert held
    for order in held[2].split(", "):
        assert f"{order}: attempt 1 killed, attempt 2 by pid " in shown
    assert len(held[2].split(", ")) >= 2
    back = re.search(r"in all ([\d,]+) messages of it came back: (\d+) that it had begun", shown)
    assert back
    assert int(back[1].replace(",", "")) >= int(back[2]) >= len(held[2].split(", "))
    assert re.search(r"received and acked, each alone, by one process: [\d,]+ a second", shown)
    assert "max attempts (3) reached: ValueError: this order cannot be charged" in shown
    late = re.search(r"the message delayed by 12s was handed out (\d+) ms after its time", shown)
    assert late
