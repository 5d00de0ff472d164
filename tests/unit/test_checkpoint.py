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


def test_one_of_another_log_is_given_up(tmp_path: Path) -> None:
    Checkpoints(tmp_path).current.mkdir()  # an earlier release's
    Checkpoints(tmp_path).use_for("this log")
    Checkpoints(tmp_path).use_for("this log")
    assert Checkpoints(tmp_path).current.name == "0001"

    Checkpoints(tmp_path).use_for("another log")

    assert Checkpoints(tmp_path).current.name == "0002"


PROXY = "An exception was raised by the Python Proxy. Return Message: Traceback:\n"
WORKER = f"{PROXY}org.apache.spark.SparkException: Job aborted. Lost task 0.0 in stage 8.0:\n"
PLAN = """

=== Streaming Query ===
Identifier: tracker [id = 1, runId = 2]
Logical Plan:
WriteToMicroBatchDataSource ForeachBatchSink, 1, [queryName=tracker, checkpointLocation=/c/0001]
+- TransformWithStateInPySpark Folding, [STATE_STORE], FileNotFoundException
"""


@pytest.mark.parametrize(
    ("error", "blamed"),
    [
        ("marq.core.fold.fold.snapshot.StaleSnapshot", True),
        ("[KAFKA_DATA_LOSS] Some data may have been lost", True),
        (f"{WORKER}marq.core.snapshot.StaleSnapshot: version 3{PLAN}", True),
        (f"{WORKER}marq.errors.NotConnected: no broker answers{PLAN}", False),
        (f"{PROXY}ValueError: checkpoint, STATE_STORE, offset log{PLAN}", False),
        (f"{PROXY}SparkException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error{PLAN}", True),
        (f"Failed to read log file. [MALFORMED_LOG_FILE] Log file was malformed{PLAN}", True),
        (f"java.io.FileNotFoundException: File file:/c/0001/state/0/0/1.zip{PLAN}", True),
        (f"x.OffsetOutOfRangeException: Fetch position is out of range{PLAN}", True),
        (f"Partition offset was changed from 90 to 10, some data may have been lost{PLAN}", True),
        ("Connection refused", False),
    ],
)
def test_some_failures_are_the_checkpoint_s(error: str, blamed: bool) -> None:
    assert blames_checkpoint(error) is blamed
