"""An idle tracker makes no batches, keeps time all the same, and wakes for whatever comes."""

from __future__ import annotations

import time

import pytest

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
STANDS_S = 4.0
"""Longer than a tracker that does not rest takes for a batch, on any machine but a stuck one."""


def rests(tracker: TrackerProcess) -> bool:
    """Wait until it makes no batch for some seconds; whether it does."""
    last, since = -1.0, time.monotonic()

    def stands() -> bool:
        nonlocal last, since
        number = tracker.metrics()["marq_tracker_batch_seconds_count"]
        if number != last:
            last, since = number, time.monotonic()
        return time.monotonic() > since + STANDS_S

    return eventually(stands, PATIENCE_S, every_s=0.2)


def test_an_idle_tracker_rests_and_wakes_for_what_lapses_known_or_new(
    tracked: Tracked, tracker: TrackerProcess, scene: Scene
) -> None:
    queue, said = scene.queue(lease="3s"), len(tracker.log.read_text())
    delayed = queue.send(b"delayed", delay="40s")  # known when it rests, and to the next tracker
    assert rests(tracker)
    assert tracker.metrics()["marq_tracker_lag_seconds"] < STANDS_S

    left = queue.send(b"left").message_id
    scene.leave(queue, 1)
    until = time.monotonic() + PATIENCE_S
    while left not in scene.pulled and time.monotonic() < until:
        scene.pull(queue, 1.0)

    tracker.kill()
    tracker.restart().wait_until_ready()
    assert rests(tracker)

    ledger = scene.settled(queue, lambda: scene.pull(queue, 1.0), sent=(delayed.message_id, left))
    assert delayed.due is not None
    assert time.time() >= delayed.due.timestamp()
    assert ledger.attempts[left] == 2
    assert "keeps no time" not in tracker.log.read_text()[said:]
