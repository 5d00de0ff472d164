"""Checkpoints: numbered, and given up for a new one."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from marq.spark.checkpoint import Checkpoints, blames_checkpoint


def test_one_that_is_given_up_is_gone_and_the_next_is_in_use(tmp_path: Path) -> None:
    found = Checkpoints(tmp_path / "tracker")
    first = found.current
    first.mkdir()
    (first / "state").write_text("old")

    found.give_up()

    assert found.current != first
    assert not first.exists()
    assert Checkpoints(tmp_path / "tracker").current == found.current


def test_a_crash_while_giving_up_leaves_the_newer_one_in_use(tmp_path: Path) -> None:
    found = Checkpoints(tmp_path)
    for number in ("0001", "0002"):
        (tmp_path / number).mkdir()

    assert found.current.name == "0002"


@pytest.mark.parametrize(
    ("error", "blamed"),
    [
        ("marq.core.snapshot.StaleSnapshot", True),
        ("[KAFKA_DATA_LOSS] Some data may have been lost", True),
        ("Connection refused", False),
    ],
)
def test_some_failures_are_the_checkpoint_s(error: str, blamed: bool) -> None:
    assert blames_checkpoint(error) is blamed
