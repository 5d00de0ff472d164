"""Brokers that die and hang under workers and tracker, and offsets that are forgotten."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from marq import embedded
from marq.core import names
from marq.kafka.backend import Kafka
from tests.conftest import Tracked
from tests.e2e.kafka_process import eventually
from tests.e2e.load import Load
from tests.e2e.tracker_scene import PATIENCE_S, Scene, soak
from tests.tracker_process import TrackerProcess

pytestmark = [
    pytest.mark.java,
    pytest.mark.kafka,
    pytest.mark.e2e,
    pytest.mark.timeout(600),
]


@dataclass(frozen=True)
class Cluster:
    """Three brokers with a tracker."""

    directory: Path
    tracker: TrackerProcess
    scene: Scene

    def pid(self, broker: int) -> int:
        found = {each.id: each.pid for each in embedded.status(self.directory).brokers}[broker]
        assert found is not None
        return found

    def leader(self, topic: str, partition: int) -> int:
        """The number of the broker that leads it."""
        found = AdminClient({"bootstrap.servers": self.scene.servers}).list_topics(timeout=30)
        return int(found.topics[topic].partitions[partition].leader)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    directory = tmp_path / "kafka"
    runtime = embedded.start(directory, 3, tracker=False, parent=os.getpid())
    try:
        with (
            TrackerProcess(runtime.bootstrap_servers, tmp_path / "checkpoint") as tracker,
            Scene(runtime.bootstrap_servers) as scene,
        ):
            tracker.wait_until_ready()
            yield Cluster(directory, tracker, scene)
    finally:
        embedded.stop(directory)


@contextmanager
def frozen(*pids: int) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@soak
def test_a_broker_killed_under_load_pauses_the_tracker_and_no_more(three: Cluster) -> None:
    scene, crew = three.scene, three.scene.crew
    queue = scene.queue(lease="4s", partitions=6)
    victim = crew.start(queue.name, work_s=0.5)
    crew.start(queue.name, work_s=0.01)
    with Load(queue) as load:
        assert load.goes_on(crew)
        begun = len(victim.ids("begun"))
        victim.wait_until(lambda: len(victim.ids("begun")) > begun)  # it has it in its hands

        os.kill(three.pid(three.leader(names.MARKERS, 0)), signal.SIGKILL)
        victim.kill()

        assert load.goes_on(crew)

    ledger = scene.settled(queue, sent=load.sent)
    assert load.sent <= ledger.sent
    assert any(copies for _, copies in ledger.copies)
    assert not ledger.dead
    assert three.tracker.running
    assert "keeping house failed" not in three.tracker.log.read_text()


@soak
def test_a_markers_leader_that_is_away_for_longer_than_the_lease_costs_no_message(
    three: Cluster,
) -> None:
    scene, crew = three.scene, three.scene.crew
    queue = scene.queue(lease="4s", partitions=1)
    place = names.markers_partition(queue.name, 0, 4)
    scene.send(queue, 20)
    victim = crew.start(queue.name, work_s=60.0)
    victim.wait_until(lambda: len(victim.ids("begun")) >= 4)

    with frozen(three.pid(three.leader(names.MARKERS, place))):
        victim.kill()
        time.sleep(9)
    crew.start(queue.name)

    ledger = scene.settled(queue)
    assert {name for name, copies in ledger.copies if copies} >= victim.ids("begun")
    assert not ledger.dead
    assert three.tracker.running


@soak
def test_a_message_is_not_kept_by_a_worker_that_lost_it_while_its_broker_was_away(
    tracked: Tracked, tracker: TrackerProcess, scene: Scene
) -> None:
    """The worker counts its leases as lost; the log, after such a silence, would let it keep them
    for as long as it beats."""
    queue = scene.queue(lease="4s", partitions=1)
    keeper = scene.crew.start(queue.name, work_s=12.0)
    kept = scene.send(queue, 4)
    keeper.wait_until(lambda: keeper.ids("begun") == kept)
    time.sleep(2)
    pids = [each.pid for each in embedded.status(tracked.runtime.directory).brokers if each.pid]

    with frozen(*pids):
        time.sleep(9)
    # A lone broker that was frozen says for a moment that there is none; a client of librdkafka
    # that asks just then loses it for a minute.
    time.sleep(2)

    ledger = scene.settled(queue)
    assert keeper.ids("acked") == kept
    assert max(ledger.attempts.values()) <= 2
    assert not ledger.dead
    assert tracker.running


def test_workers_whose_offsets_were_forgotten_go_on_where_they_were(scene: Scene) -> None:
    """A group without members loses its offsets after a week; here at once."""
    queue = scene.queue(lease="2s", partitions=2)
    first = scene.send(queue, 40)
    worker = scene.crew.start(queue.name, work_s=0.02, concurrency=2)
    worker.wait_until(lambda: len(worker.ids("acked")) >= 20)
    worker.kill()
    kafka = scene.broker.backend
    assert isinstance(kafka, Kafka)
    kafka.admin.forget_group(names.DEFAULT.consumer_group(queue.name))
    later = scene.send(queue, 20)

    scene.crew.start(queue.name)

    ledger = scene.settled(queue)
    assert scene.acked() == first | later
    assert not ledger.dead
    assert max(ledger.attempts.values()) <= 2
    assert eventually(lambda: queue.stats().in_flight == 0, PATIENCE_S)
