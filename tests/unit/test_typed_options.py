"""An editor completes the options, a type checker refuses a typo, and both know all there are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from marq.core.catalog import options as queue_options
from marq.core.catalog.options import QueueChanges, QueueOptions
from marq.groups import options as group_options
from marq.groups.options import GroupOptions
from marq.settings import ConnectOptions, Settings

_CACHE = Path(__file__).parents[2] / ".mypy_cache" / "snippets"
_RIGHT = """
import marq
from datetime import timedelta

with marq.connect("memory://", connect_timeout="5s", kafka={"linger.ms": 1}) as broker:
    orders = broker.queue("orders", lease="30s", backoff=("1s", timedelta(minutes=5)), ttl=None)
    orders.update(max_attempts=8)
    orders.send(b"", key="k", delay="10s")
    reveal_type(broker.queue("typed", type=int, partitions=8))
    broker.group("orders", "billing", max_members=10, members=["m1"], kind="static")
"""
_WRONG = [
    'broker.queue("orders", leese="30s")',
    'broker.queue("orders", max_attempts="5")',
    'broker.queue("orders", type=int, leese="30s")',
    "orders.update(leese=1)",
    "orders.update(partitions=8)",
    'orders.send(b"", dellay="1s")',
    'broker.group("orders", "billing", max_membres=10)',
    'broker.group("orders", "billing", kind="elastik")',
    'marq.connect("memory://", connect_timeoot="5s")',
]


def test_a_type_checker_refuses_unknown_options_and_no_others(tmp_path: Path) -> None:
    right = _RIGHT.strip("\n")
    snippet = tmp_path / "snippet.py"
    snippet.write_text("\n".join([right, *(f"    {line}" for line in _WRONG)]) + "\n")

    said = _mypy(snippet)

    first_wrong = len(right.splitlines()) + 1
    refused = {int(line.split(":")[1]) for line in said.splitlines() if ": error:" in line}
    assert refused == set(range(first_wrong, first_wrong + len(_WRONG))), said
    assert "Queue[int]" in said


def _mypy(file: Path) -> str:
    """As a user's project has it checked."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(_CACHE), file.name],
        cwd=file.parent, capture_output=True, text=True, timeout=170, check=False,
    )  # fmt: skip
    return done.stdout.replace(f"{file.parent}/", "")


def test_what_can_be_written_is_what_is_known() -> None:
    assert QueueOptions.__annotations__.keys() == queue_options._CHECKS.keys()
    assert GroupOptions.__annotations__.keys() == group_options._OPTIONS.keys()
    assert ConnectOptions.__annotations__.keys() == Settings.model_fields.keys() - {"url"}


def test_what_is_fixed_cannot_be_written_as_a_change() -> None:
    assert {"partitions", "priorities", "lane"} == queue_options.FIXED
    assert not queue_options.FIXED & QueueChanges.__annotations__.keys()
