"""Whatever is written to queues and to marq's own logs, the tracker keeps time for everyone."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest

import marq
from marq.core import names
from marq.kafka.backend import Kafka
from tests.conftest import Tracked
from tests.e2e.kafka_fixtures import new_name
from tests.e2e.kafka_process import eventually
from tests.hostile.effort import SEEDS, odd
from tests.hostile.stage import PARTITIONS, PATIENCE_S, Stage

pytestmark = [pytest.mark.java, pytest.mark.kafka, pytest.mark.e2e, pytest.mark.timeout(900)]


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_written_the_tracker_keeps_time_for_everyone(
    tracked: Tracked, seed: int
) -> None:
    said_before = tracked.tracker.log.read_text()
    calm = Calm(tracked.bootstrap_servers)
    options = {"lease": "2s", "max_attempts": 3, "backoff": ("0s", "1s")}
    with calm.broker, Stage(tracked.bootstrap_servers, seed, settles=True, **options) as stage:
        calm.begin()
        attack_logs(stage, calm.kafka.markers_partitions)
        stage.send_odd(odd(60))
        leave(stage, 30)

        with stage.working() as alive:

            def all_alive() -> None:
                alive()
                assert tracked.tracker.running, tracked.tracker.tail()

            stage.send_good(2, delay="11s")
            stage.send_good_in_transaction(5)
            for topic in (stage.queue.name, names.MARKERS, names.DELAYED):
                stage.attack.again(topic, PARTITIONS)
            stage.attack.write(stage.hostile.holds(odd(40)), PARTITIONS, stage.hostile)
            stage.check(all_alive)
            calm.check()
            after_life(stage)
            stage.send_good(2)
            stage.check(all_alive)

    said = tracked.tracker.log.read_text()[len(said_before) :]
    for sentence in ("the query failed", "a new checkpoint", "keeping house failed"):
        assert sentence not in said, f"seed {seed}: {said[said.index(sentence) :][:3_000]}"


def attack_logs(stage: Stage, partitions: int) -> None:
    """Write odd records wherever marq keeps its own."""
    hostile, attack = stage.hostile, stage.attack
    attack.write(hostile.entries(odd(100)), 1, hostile)
    attack.write(hostile.stats(), 1, hostile)
    attack.write(hostile.holds(odd(80)), partitions, hostile)
    attack.write(hostile.messages(odd(30), names.dead_letters(stage.queue.name)), 1, hostile)


def leave(stage: Stage, number: int) -> None:
    """Take some and do nothing with them: they come back by expiry."""
    with marq.connect(f"kafka://{stage.servers}") as other:
        for delivery in other.queue(stage.queue.name).receive(number, "20s"):
            stage.note(delivery)


def after_life(stage: Stage) -> None:
    """Look at the dead letters, discard some and send some again."""
    letters = stage.queue.dead_letters
    for letter in letters.list(1_000):
        _ = (letter.payload, letter.key, letter.headers, letter.message_id, repr(letter))
        _ = (letter.attempts, letter.history, letter.sent_at, letter.died_at, letter.queue)
    chosen = random.Random(stage.seed)
    with contextlib.suppress(marq.PayloadError):  # as large as topics take, and not this client
        letters.redrive(limit=20, where=lambda letter: chosen.random() < 0.5)
    letters.discard(limit=10)


class Calm:
    """A queue nobody attacks: what it needs is kept time for."""

    def __init__(self, servers: str) -> None:
        self.broker = marq.connect(f"kafka://{servers}")
        self.queue: marq.Queue[Any] = self.broker.queue(new_name(), lease="2s", partitions=1)

    @property
    def kafka(self) -> Kafka:
        assert isinstance(self.broker.backend, Kafka)
        return self.broker.backend

    def begin(self) -> None:
        """Messages that are left alone, delayed and retried."""
        self.sent = {each.message_id for each in self.queue.send_many([b"calm"] * 5)}
        self.sent.add(self.queue.send(b"later", delay="11s").message_id)
        taken = 0
        while taken < 5:
            taken += len(self.queue.receive(5 - taken, "20s"))

    def check(self) -> None:
        """All come back in time, are counted, and their log is trimmed."""
        acked: set[str] = set()

        def settled() -> bool:
            # What is parked may have been written twice: then it comes twice.
            for delivery in self.queue.receive(10, "1s"):
                acked.add(delivery.message_id)
                delivery.ack()
            return acked >= self.sent and self._is_counted()

        assert eventually(settled, PATIENCE_S), (self.sent - acked, self._about())
        assert eventually(self._is_trimmed, PATIENCE_S), "what is done is not trimmed"

    def _about(self) -> object:
        """What the hold logs have of the queue."""
        states = self.kafka.reader.folded(names.DELAYED, self.kafka.markers_partitions)
        parked = [
            entry
            for state in states
            for chunk in state.parked.chunks.values()
            for entry in chunk.values()
            if entry.queue == self.queue.name
        ]
        return self.queue.stats(), self.kafka.counted(self.queue.name), parked

    def _is_counted(self) -> bool:
        found = self.queue.stats()
        return (found.ready, found.in_flight, found.delayed, found.dead) == (0, 0, 0, 0)

    def _is_trimmed(self) -> bool:
        return self.kafka.admin.starts(self.queue.name, 1)[0] >= len(self.sent)
