"""What `marq tracker` takes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import marq
from marq.cli.tracker import _address


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("0", ("127.0.0.1", 0)),
        ("9108", ("127.0.0.1", 9108)),
        ("0.0.0.0:9108", ("0.0.0.0", 9108)),
        ("[::]:9108", ("::", 9108)),
        ("metrics.example:9108", ("metrics.example", 9108)),
    ],
)
def test_metrics_are_for_this_machine_unless_an_address_is_named(
    given: str, meant: tuple[str, int]
) -> None:
    assert _address(given) == meant


@pytest.mark.parametrize("given", ["", "all", "9108:", "65536", "-1", "localhost"])
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(marq.ConfigError, match="PORT or ADDRESS:PORT"):
        _address(given)


DEAF = """
from marq.cli.errors import clear_errors
from marq.cli.tracker import _run
from marq.stopping import Stopping

class Deaf:
    def __init__(self):
        self._stopping = Stopping()
        self.stop = self._stopping.set

    stopping = property(lambda self: self._stopping.is_set())

    @property
    def keeping(self):
        raise BrokenPipeError("the terminal is gone")

    def run(self):
        self._stopping.wait()

    def close(self): ...

with clear_errors():
    _run(Deaf())
"""


def test_one_that_can_tell_nobody_any_more_ends_as_failed() -> None:
    """Not as if it had been asked to end: whoever started it must start it again."""
    ended = subprocess.run(
        [sys.executable, "-c", DEAF], capture_output=True, text=True, timeout=60, check=False
    )

    assert ended.returncode != 0
    assert "the terminal is gone" in ended.stderr


def test_its_url_is_the_setting_s_unless_it_is_said() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "marq.cli", "tracker"],
        env={**os.environ, "MARQ_URL": "memory://shop"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert "kafka://host:9092,…, not 'memory://shop'" in done.stderr
