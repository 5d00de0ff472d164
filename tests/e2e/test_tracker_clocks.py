"""Senders, workers and trackers whose clocks are two hours wrong: only the log's clock counts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from tests.conftest import Tracked
from tests.e2e.kafka_process import ROOT, Crew, Event
from tests.e2e.tracker_scene import Scene, soak
from tests.e2e.wrong_clocks import WrongClock
from tests.tracker_process import TrackerProcess

pytestmark = [
    pytest.mark.java,
    pytest.mark.kafka,
    pytest.mark.e2e,
    pytest.mark.timeout(600),
    soak,
]

SEND = """
import json, sys, marq
with marq.connect(sys.argv[1]) as broker:
    queue = broker.queue(sys.argv[2])
    options = {"plain": {}, "1500ms": {"delay": "1500ms"}, "12s": {"delay": "12s"},
               "lasting": {"ttl": "5m"}}
    print(json.dumps({
        name: [sent.message_id for sent in queue.send_many([b"x"] * 10, **options[name])]
        for name in options
    }))
"""
LEASE_MS, PUMP_LEASE_MS = 3_000, 11_000
AHEAD, BEHIND = timedelta(hours=2), timedelta(hours=-2)


@dataclass(frozen=True)
class Sent:
    """Messages of several kinds from one process: their ids."""

    after_ms: float
    """They were sent after this moment, by the right clock."""
    ids: dict[str, set[str]]

    def early(self, begun: Event) -> bool:
        """Whether one of them was begun before its delay was over."""
        delays = {"1500ms": 1_500, "12s": 12_000}
        return any(
            begun.message_id in self.ids[kind] and begun.clock_ms < self.after_ms + delay_ms
            for kind, delay_ms in delays.items()
        )


def send(scene: Scene, queue: str, clock: dict[str, str]) -> Sent:
    """Messages of several kinds from a process with that clock."""
    now_ms = time.time() * 1_000
    done = subprocess.run(
        [sys.executable, "-c", SEND, f"kafka://{scene.servers}", queue],
        cwd=ROOT,
        env={**os.environ, **clock},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    )
    return Sent(now_ms, {kind: set(ids) for kind, ids in json.loads(done.stdout).items()})


@pytest.mark.parametrize(
    ("mine", "others"), [(AHEAD, BEHIND), (BEHIND, AHEAD)], ids=["ahead", "behind"]
)
def test_wrong_clocks_neither_hasten_nor_repeat_anything(
    tracked: Tracked,
    tracker: TrackerProcess,
    wrong_clock: WrongClock,
    tmp_path: Path,
    mine: timedelta,
    others: timedelta,
) -> None:
    """The tracker, the first worker and a sender are wrong by `mine`, the rest by `others`."""
    my_clock, their_clock = wrong_clock.off_by(mine), wrong_clock.off_by(others)
    with (
        TrackerProcess(tracked.bootstrap_servers, tmp_path / "wrong", my_clock) as wrong,
        Scene(tracked.bootstrap_servers) as scene,
    ):
        wrong.wait_until_ready()
        assert tracker.wait(60) == 3
        # Not only the driver: its JVM, and the Python processes that fold and act.
        believers = wrong_clock.believers(wrong.family())
        assert believers["java"] and believers[Path(sys.executable).resolve().name], believers
        queue = scene.queue(lease="3s")
        scene.crew = Crew(scene.servers, my_clock)
        victim = scene.crew.start(queue.name, work_s=60.0, concurrency=8)
        victim.wait_for("ready")
        first = send(scene, queue.name, my_clock)
        victim.wait_until(lambda: len(victim.ids("begun")) == 8)
        time.sleep(2 * LEASE_MS / 1_000)  # kept alive by its beats
        assert {copies for _, copies in scene.ledger(queue).copies} == {0}

        victim.kill()
        killed_ms = time.time() * 1_000
        scene.crew.start(queue.name)
        with Crew(scene.servers, their_clock) as others_crew:
            others_crew.start(queue.name)
            scene.crew.members += others_crew.members
            # With hands that are free: whatever were early would be begun early.
            sent = [first, *(send(scene, queue.name, clock) for clock in (my_clock, their_clock))]
            all_sent = set().union(*(ids for each in sent for ids in each.ids.values()))
            ledger = scene.settled(queue, sent=all_sent)

        assert ledger.sent == all_sent
        assert not ledger.dead  # nothing has expired
        assert max(copies for _, copies in ledger.copies) == 1
        lost = {name for name, copies in ledger.copies if copies}
        assert lost >= victim.ids("begun")
        for record in ledger.records:
            if record.meta().copies and record.message_id() in lost:
                assert killed_ms < record.meta().due_ms <= killed_ms + PUMP_LEASE_MS + 1_000
        begun = scene.crew.heard("begun")
        assert not [event for event in begun if any(each.early(event) for each in sent)]
