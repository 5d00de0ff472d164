"""Directories that go with their process."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from marq.spark.own_directory import OwnDirectory

LONG_AGO = time.time() - 3_600


def left_behind(directory: OwnDirectory) -> Path:
    """As a process leaves it that was killed."""
    (directory.path / "artifacts-1").mkdir()
    os.close(directory._lock)
    os.utime(directory.path, (LONG_AGO, LONG_AGO))
    return directory.path


def test_it_is_nobody_else_s_and_goes_with_all_that_is_in_it(tmp_path: Path) -> None:
    own = OwnDirectory(tmp_path / "new", "marq-")
    (own.path / "some").write_text("thing")
    assert own.path.stat().st_mode & 0o777 == 0o700

    own.remove()
    own.remove()

    assert list((tmp_path / "new").iterdir()) == []


def test_what_a_killed_process_left_goes_at_the_next_start(tmp_path: Path) -> None:
    left = left_behind(OwnDirectory(tmp_path, "marq-"))

    own = OwnDirectory(tmp_path, "marq-")

    assert list(tmp_path.iterdir()) == [own.path]
    assert not left.exists()


def test_what_a_process_uses_that_still_runs_stays(tmp_path: Path) -> None:
    used = OwnDirectory(tmp_path, "marq-")
    os.utime(used.path, (LONG_AGO, LONG_AGO))
    young = tmp_path / "marq-being-made"
    young.mkdir()
    others = tmp_path / "theirs"
    others.mkdir()
    os.utime(others, (LONG_AGO, LONG_AGO))

    own = OwnDirectory(tmp_path, "marq-")

    assert {*tmp_path.iterdir()} == {used.path, own.path, young, others}


def test_a_directory_of_someone_else_stays_whatever_its_name(tmp_path: Path) -> None:
    data = tmp_path / "marq-data"  # as of `marq up --data`, or of a benchmark that runs
    data.mkdir()
    (data / "messages").write_text("of months")
    os.utime(data, (LONG_AGO, LONG_AGO))

    OwnDirectory(tmp_path, "marq-")

    assert [path.name for path in data.iterdir()] == ["messages"]
