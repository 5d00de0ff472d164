"""Whole runtimes: one that goes down and comes back, one whose tracker spark-submit started; and
topics that do not grow."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import marq
from marq import embedded
from marq.core import names
from marq.kafka.backend import Kafka
from tests.e2e.kafka_process import eventually
from tests.e2e.tracker_scene import PATIENCE_S
from tests.spark_ports import refuse_open_doors
from tests.tracker_process import SUBMITTED, TrackerProcess

pytestmark = [
    pytest.mark.java,
    pytest.mark.kafka,
    pytest.mark.e2e,
    pytest.mark.timeout(900),
]

NUMBER = 50


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "runtime"
    embedded.stop(tmp_path / "runtime")


def connected(directory: Path, tracker: bool = True) -> marq.Broker:
    runtime = embedded.start(directory, tracker=tracker, parent=os.getpid())
    return marq.connect(f"kafka://{runtime.bootstrap_servers}")


def taken(queue: marq.Queue[Any], number: int, **options: Any) -> list[marq.Delivery[Any]]:
    found: list[marq.Delivery[Any]] = []

    def enough() -> bool:
        found.extend(queue.receive(number, "1s", **options))
        return len(found) >= number

    assert eventually(enough, PATIENCE_S)
    return found


def test_after_all_was_down_what_is_open_comes_back_and_the_rest_is_trimmed(
    directory: Path,
) -> None:
    with connected(directory) as broker:
        jobs = broker.queue("jobs", lease="10s", partitions=1)
        jobs.send_many([b"x"] * NUMBER)
        left, *done = taken(jobs, NUMBER)
        for delivery in done:
            delivery.ack()
        parked = jobs.send(b"late", delay="20s")
        jobs.flush()
    embedded.stop(directory)

    with connected(directory) as broker:
        jobs, kafka = broker.queue("jobs"), broker.backend
        assert isinstance(kafka, Kafka)
        again = {delivery.message_id: delivery for delivery in taken(jobs, 2, lease="10m")}

        assert parked.due is not None
        assert datetime.now(UTC) >= parked.due
        attempts = {name: delivery.attempt for name, delivery in again.items()}
        assert attempts == {left.message_id: 2, parked.message_id: 1}
        # All below what is open goes, and nothing of that.
        oldest, newest = sorted(delivery._stored.offset for delivery in again.values())
        assert oldest >= NUMBER
        assert eventually(lambda: kafka.admin.starts("jobs", 1) == [oldest], PATIENCE_S)

        for delivery in again.values():
            delivery.ack().result(30)
        markers = kafka.admin.ends(names.MARKERS, kafka.markers_partitions)

        def trimmed() -> bool:
            starts = kafka.admin.starts(names.MARKERS, kafka.markers_partitions)
            kept = kafka.admin.starts(names.DELAYED, kafka.markers_partitions)
            return (
                all(start >= end for start, end in zip(starts, markers, strict=True))
                and kept[parked.partition] > parked.offset
                and kafka.admin.starts("jobs", 1)[0] > newest
            )

        assert eventually(trimmed, PATIENCE_S), "a topic was not trimmed"
        assert jobs.receive(1, "1s") == []


def test_a_tracker_started_by_spark_submit_keeps_time_and_its_doors_shut(
    directory: Path, tmp_path: Path
) -> None:
    with connected(directory, tracker=False) as broker:
        jobs = broker.queue("jobs", lease="2s")
        sent = jobs.send(b"x")
        taken(jobs, 1)
        servers = embedded.status(directory).bootstrap_servers

        python = {"PYSPARK_PYTHON": sys.executable}  # spark-submit looks for one by itself
        with TrackerProcess(servers, tmp_path / "spark", python, command=SUBMITTED) as tracker:
            tracker.wait_until_ready()
            (again,) = taken(jobs, 1)
            again.ack().result(30)
            refuse_open_doors(tracker.family())
            tracker.stop()
            said = tracker.log.read_text()

    assert (again.message_id, again.attempt) == (sent.message_id, 2)
    assert "ClassNotFoundException" not in said
