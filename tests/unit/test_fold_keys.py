"""Which of Spark's tasks a hold-log partition is folded in."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from collections import Counter

from marq.spark.fold_keys import LOGS, _hash, fold_key


@pytest.mark.parametrize(
    ("number", "hashed"),
    # As `select hash(n)` says.
    [(0, 933211791), (1, -559580957), (42, 29417773), (1_000_000, -2101434080)],
)
def test_the_hash_is_spark_s(number: int, hashed: int) -> None:
    assert _hash(number) == hashed & 0xFFFFFFFF


@pytest.mark.parametrize("partitions", [4, 8, 64, 100])
def test_no_two_partitions_share_a_fold_key(partitions: int) -> None:
    keys = [fold_key(topic, number) for topic in LOGS for number in range(partitions)]

    assert len(set(keys)) == 2 * partitions


@pytest.mark.parametrize("tasks", [2, 4])
@pytest.mark.parametrize("topic", LOGS)
def test_every_task_has_as_many_of_each_log(topic: str, tasks: int) -> None:
    found = Counter(_hash(fold_key(topic, number)) % tasks for number in range(8))

    assert set(found.values()) == {8 // tasks}


def test_keys_never_change_for_state_is_kept_under_them() -> None:
    assert [fold_key("markers", number) for number in range(4)] == [38, 64, 57, 80]
    assert [fold_key("delayed", number) for number in range(4)] == [273, 94, 77, 85]
