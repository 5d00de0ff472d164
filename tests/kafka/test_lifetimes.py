"""Brokers that nobody closes, and processes that fork."""

from __future__ import annotations

import subprocess
import sys

import pytest

import marq
from marq import embedded
from tests.e2e.kafka_fixtures import NewQueue
from tests.e2e.kafka_oracle import Oracle

pytestmark = [pytest.mark.java, pytest.mark.kafka]


class Scene:
    """A queue with 20 messages, and a process that does something with it."""

    def __init__(self, runtime: embedded.Runtime, queue: marq.Queue[bytes]) -> None:
        self._servers = runtime.bootstrap_servers
        self.queue = queue
        self.sent = {each.message_id for each in queue.send_many([b"x"] * 20)}

    def play(self, scene: str) -> str:
        """What the process prints."""
        command = [sys.executable, "-m", "tests.kafka.lifetimes", scene, self._servers]
        done = subprocess.run(
            [*command, self.queue.name], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout


@pytest.fixture
def scene(kafka: embedded.Runtime, new_queue: NewQueue) -> Scene:
    return Scene(kafka, new_queue(partitions=1))


@pytest.mark.parametrize("how", ["falls_off_the_end", "lets_go", "ends_by_multiprocessing"])
def test_what_nobody_closed_is_durable(scene: Scene, oracle: Oracle, how: str) -> None:
    scene.play(how)

    found = oracle.look(scene.queue.name)
    assert scene.sent <= found.acked
    assert len(found.sent) == 1_020


def test_a_child_goes_on_by_itself_and_leaves_its_parent_s_messages_alone(
    scene: Scene, oracle: Oracle
) -> None:
    told = scene.play("forks")

    assert "'ack': 'DeliveryError', 'retry': 'DeliveryError', 'extend': 'DeliveryError'" in told
    assert "'send': True, 'receive': b'here', 'flush': 'none'" in told
    assert "exit 0" in told
    assert len(oracle.look(scene.queue.name).acked) == 2


def test_a_child_that_only_ends_does_so_and_hurts_nobody(scene: Scene, oracle: Oracle) -> None:
    told = scene.play("forks_and_only_ends")

    assert "child ConfigError" in told
    assert "exit 0" in told
    assert scene.sent <= oracle.look(scene.queue.name).acked


def test_workers_forked_after_connecting_send_and_receive(scene: Scene, oracle: Oracle) -> None:
    told = scene.play("preloads")

    assert "exit [0, 0, 0]" in told
    found = oracle.look(scene.queue.name)
    assert len(found.sent) == 25
    assert len(found.acked) == 3
