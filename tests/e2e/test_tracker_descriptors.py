"""A tracker's JVM holds no more descriptors after many batches than after a few."""

from __future__ import annotations

from functools import partial

import pytest

import marq
from tests.conftest import Tracked
from tests.e2e.kafka_process import eventually
from tests.e2e.tracker_scene import PATIENCE_S, Scene
from tests.tracker_process import TrackerProcess

pytestmark = [
    pytest.mark.java,
    pytest.mark.kafka,
    pytest.mark.e2e,
    pytest.mark.timeout(600),
]
BATCHES = 25


def connections(tracker: TrackerProcess) -> int:
    """Sockets of this machine alone that the tracker's JVM has open."""
    (jvm,) = [each for each in tracker.family() if each.name() == "java"]
    return len(jvm.net_connections(kind="unix"))


def batches(tracker: TrackerProcess) -> float:
    return tracker.metrics()["marq_tracker_batch_seconds_count"]


def has_made(tracker: TrackerProcess, number: float) -> bool:
    return batches(tracker) >= number


def make_batches(tracker: TrackerProcess, queue: marq.Queue[bytes], number: int) -> None:
    """Something to fold for each of them, for an idle tracker makes none."""
    for _ in range(number):
        more = batches(tracker) + 1
        queue.send(b"parked", delay="1h")
        assert eventually(partial(has_made, tracker, more), PATIENCE_S)


def test_no_batch_leaves_a_connection_open(
    tracked: Tracked, tracker: TrackerProcess, scene: Scene
) -> None:
    queue = scene.queue()
    make_batches(tracker, queue, 3)
    first = connections(tracker)

    make_batches(tracker, queue, BATCHES)

    assert connections(tracker) < first + BATCHES // 2
