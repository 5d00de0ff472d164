"""A queue that only a newer release understands, beside a real tracker."""

from __future__ import annotations

import pytest

import marq
from marq.core import names
from marq.kafka.backend import Kafka
from tests.e2e.kafka_process import eventually
from tests.e2e.tracker_scene import PATIENCE_S, Scene
from tests.kafka.catalog_records import by_a_newer_one
from tests.tracker_process import TrackerProcess

pytestmark = [
    pytest.mark.java,
    pytest.mark.kafka,
    pytest.mark.e2e,
    pytest.mark.timeout(600),
]


def test_the_tracker_holds_what_such_a_queue_has_and_serves_the_others(
    scene: Scene, tracker: TrackerProcess
) -> None:
    newer, other = scene.queue(lease="10s", partitions=1), scene.queue(lease="1s", partitions=1)
    kafka = scene.broker.backend
    assert isinstance(kafka, Kafka)
    before = tracker.metrics()["marq_tracker_put_off_total"]
    scene.send(newer, 3)
    scene.leave(newer, 3)
    value = by_a_newer_one(kafka, newer.name)
    sent = scene.send(other, 3)
    scene.leave(other, 3)

    again = other.receive(3, "60s")

    assert {each.message_id for each in again} <= sent
    assert all(each.attempt == 2 for each in again)
    assert eventually(
        lambda: tracker.metrics()["marq_tracker_put_off_total"] >= before + 3, PATIENCE_S
    )
    assert kafka.admin.ends(newer.name, 1) == [3]  # no copy, and
    assert kafka.admin.ends(names.dead_letters(newer.name), 1) == [0]  # no letter
    assert kafka.admin.starts(newer.name, 1) == [0]
    found = kafka.catalog().record("queue", newer.name)
    assert found is not None
    assert found.value == value
    with pytest.raises(marq.ConfigError, match="made by a newer marq"):
        newer.receive()
