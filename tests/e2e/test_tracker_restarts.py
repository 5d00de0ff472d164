"""A tracker that is killed, away or replaced: the log says what was done."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from tests.conftest import Tracked
from tests.e2e.kafka_process import eventually
from tests.e2e.tracker_scene import PATIENCE_S, Scene, share, soak
from tests.tracker_process import TrackerProcess

pytestmark = [
    pytest.mark.java,
    pytest.mark.kafka,
    pytest.mark.e2e,
    pytest.mark.timeout(600),
]
KILLS = 4 if "OUTAGES" in os.environ else 2


def test_a_tracker_killed_again_and_again_acts_on_each_expiry_once(
    tracked: Tracked, tracker: TrackerProcess, scene: Scene
) -> None:
    queue, chance, most = scene.queue(lease="2s", max_attempts=50), random.Random(7), share(0.7, 7)
    sent = scene.send(queue, 600)

    for kill in range(KILLS):
        scene.pull(queue, chance.uniform(1.0, 4.0), most)
        tracker.kill()
        if kill % 2:  # the state goes too: the log says the same
            shutil.rmtree(tracked.checkpoint)
        tracker.restart()
        sent |= scene.send(queue, 200)
        if kill < 2:  # the others die before they have caught up, perhaps
            tracker.wait_until_ready()

    ledger = scene.settled(queue, lambda: scene.pull(queue, 2.0))
    assert ledger.sent == sent
    assert not ledger.dead


def test_a_query_that_failed_of_something_else_goes_on_with_its_checkpoint(
    tracker: TrackerProcess, scene: Scene
) -> None:
    """Its Python workers are killed until a task fails of it."""
    queue, before = scene.queue(lease="2s"), len(tracker.log.read_text())
    sent = scene.send(queue, 20)
    scene.leave(queue, 20)

    def said() -> str:
        lines = tracker.log.read_text()[before:].splitlines()
        told = ("the query failed, starting it again", "starting from a new checkpoint")
        return next((line for line in lines if any(each in line for each in told)), "")

    def failed() -> bool:
        for process in tracker.family():
            with contextlib.suppress(psutil.Error):
                if "marq.spark.daemon" in process.cmdline():
                    process.kill()
        return bool(said())

    assert eventually(failed, PATIENCE_S)
    assert "starting it again" in said()
    scene.settled(queue, lambda: scene.pull(queue, 2.0))
    assert scene.pulled == sent


@soak
def test_a_tracker_that_was_away_for_longer_than_all_leases_brings_back_what_is_open_once(
    tracker: TrackerProcess, scene: Scene
) -> None:
    queue, slow = scene.queue(lease="2s"), scene.queue(lease="8s")
    sent, kept = scene.send(queue, 60), scene.send(slow, 4)
    keeper = scene.crew.start(slow.name, work_s=30.0)
    keeper.wait_until(lambda: keeper.ids("begun") == kept)
    victim = scene.crew.start(queue.name, work_s=0.5)
    victim.wait_until(lambda: len(victim.ids("acked")) >= 8)
    tracker.kill()
    victim.kill()

    # Longer than lease and pump lease of what the dead worker had.
    time.sleep(15)
    at_rest = scene.ledger(queue)
    tracker.restart().wait_until_ready()
    scene.crew.start(queue.name)

    ledger = scene.settled(queue)
    assert scene.acked() >= sent
    assert {copies for _, copies in at_rest.copies} == {0}
    assert {copies for _, copies in ledger.copies} == {0, 1}
    assert max(ledger.attempts.values()) <= 2
    # Whoever went on beating has kept what it had.
    assert {copies for _, copies in scene.settled(slow).copies} == {0}
    assert keeper.ids("acked") == kept


@soak
def test_a_second_tracker_takes_over_and_the_first_one_ends(
    tracked: Tracked, tracker: TrackerProcess, scene: Scene, tmp_path: Path
) -> None:
    queue = scene.queue(lease="2s")
    before = scene.send(queue, 5)
    scene.leave(queue, 5)

    with TrackerProcess(tracked.bootstrap_servers, tmp_path / "second") as second:
        second.wait_until_ready()
        assert tracker.wait(60) == 3

        after = scene.send(queue, 5)
        scene.settled(queue, lambda: scene.pull(queue, 2.0))
    assert scene.pulled == before | after


@soak
def test_two_trackers_that_fight_act_on_each_expiry_once(
    tracked: Tracked, tracker: TrackerProcess, scene: Scene, tmp_path: Path
) -> None:
    """The one that was replaced is started again at once, as someone who does not know might."""
    queue, most = scene.queue(lease="2s", max_attempts=50), share(0.5, 3)
    sent = scene.send(queue, 300)

    with TrackerProcess(tracked.bootstrap_servers, tmp_path / "other") as other:
        rivals = [tracker, other]

        def fight() -> bool:
            scene.pull(queue, 1.0, most)
            for rival in rivals:
                if not rival.running:
                    codes.append(rival.wait())
                    rival.kill()
                    rival.restart()
            return len(codes) >= 3

        codes: list[int] = []
        assert eventually(fight, PATIENCE_S)
        assert set(codes) == {3}
        other.stop()
        if not tracker.running:
            tracker.kill()
            tracker.restart()
        scene.settled(queue, lambda: scene.pull(queue, 2.0))
    assert scene.pulled == sent
