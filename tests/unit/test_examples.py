"""The examples run and print what they promise."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import marq

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

PRINTED = {
    "hello.py": ["got {'order': 7}"],
    "handlers.py": [
        "charged 30 for order 1, attempt 1",
        "charged 50 for order 2, attempt 3",
        "dead: order 3: a negative amount",
    ],
    "delayed.py": [
        "cancelled: True",
        "now: []",
        "1d later: pay invoice 7",
        "2h later: last call",
        "left: 0",
    ],
    "half_messages.py": [
        "order 3: the connection was lost",
        "delivered: {'order': 1}",
        "delivered: {'order': 3}",
        "in the database: (None, 'rolled back')",
        "in the database: (1, 'ordered')",
        "in the database: (3, 'ordered')",
    ],
}


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_promises(tmp_path: Path, name: str) -> None:
    nothing_set = {name: it for name, it in os.environ.items() if not name.startswith("MARQ_")}

    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name)],
        cwd=tmp_path, env=nothing_set, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == PRINTED[name]


USERS_TESTS = runpy.run_path(str(EXAMPLES / "users_test.py"))


@pytest.mark.parametrize("name", [name for name in USERS_TESTS if name.startswith("test_")])
def test_a_user_s_test_passes(marq_broker: marq.Broker, name: str) -> None:
    USERS_TESTS[name](marq_broker)


def test_every_example_is_tried() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == PRINTED.keys() | {"users_test.py"}


def test_the_page_about_half_messages_shows_its_example_as_it_is() -> None:
    example = (EXAMPLES / "half_messages.py").read_text()

    assert f"```python\n{example}```" in (ROOT / "docs/half-messages.md").read_text()


def test_the_readme_shows_the_hello_world_as_it_is() -> None:
    hello = (EXAMPLES / "hello.py").read_text()

    assert len(hello.splitlines()) <= 10
    assert f"```python\n{hello}```" in (ROOT / "README.md").read_text()
