"""Threads of a client that are killed, wherever they are at that moment: whoever sends, receives or
works is told, and nobody waits for ever. On a real broker."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest

import marq
from marq import embedded
from tests.e2e.kafka_fixtures import new_name
from tests.kafka.killing import PATIENCE_S, Killed, kill

pytestmark = [pytest.mark.java, pytest.mark.kafka]


@pytest.fixture
def doomed(kafka: embedded.Runtime) -> Iterator[marq.Broker]:
    """A broker that cannot go on by the end of the test; closing tells so again."""
    broker = marq.connect(f"kafka://{kafka.bootstrap_servers}")
    yield broker
    with contextlib.suppress(marq.QueueError, Killed):
        broker.close()


def work(queue: marq.Queue[bytes], is_async: bool) -> threading.Event:
    """Register a handler; the event tells that it has run."""
    handled = threading.Event()

    def handle(payload: bytes) -> None:
        handled.set()

    async def handle_async(payload: bytes) -> None:
        handled.set()

    queue.handler(concurrency=1)(handle_async if is_async else handle)  # one hand, which stays
    return handled


OF_A_WORKER = ["flusher", "markers", "sender", "pump-{}", "{}", "{}-0", "loop"]


# What a dead loop was handed is never awaited.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("name", OF_A_WORKER)
def test_a_worker_tells_whoever_waits_for_it(doomed: marq.Broker, name: str) -> None:
    queue = doomed.queue(new_name())
    handled = work(queue, is_async=name == "loop")
    queue.send(b"1")
    worker = doomed.worker(queue)
    worker.start()
    assert handled.wait(PATIENCE_S)

    kill(f"marq-{name.format(queue.name)}", lambda: queue.send_nowait(b"2"))

    with pytest.raises((marq.QueueError, Killed)):
        worker.wait()


# What a dead loop was handed is never awaited.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("name", OF_A_WORKER)
def test_a_worker_tells_whoever_leaves_its_block(doomed: marq.Broker, name: str) -> None:
    queue = doomed.queue(new_name())
    handled = work(queue, is_async=name == "loop")
    queue.send(b"1")

    with pytest.raises((marq.QueueError, Killed)), doomed.worker(queue):
        assert handled.wait(PATIENCE_S)
        kill(f"marq-{name.format(queue.name)}", lambda: queue.send_nowait(b"2"))


@pytest.mark.parametrize("name", ["flusher", "markers", "sender", "pump-{}"])
def test_whoever_sends_and_receives_is_told(doomed: marq.Broker, name: str) -> None:
    queue = doomed.queue(new_name())
    queue.send(b"1")
    while not (found := queue.receive(1, "20s")):
        pass
    found[0].ack().result(PATIENCE_S)
    told: list[BaseException] = []

    def go_on() -> None:
        try:
            while True:
                queue.send_nowait(b"2").result(PATIENCE_S)
                for delivery in queue.receive(1, "20s"):
                    delivery.ack().result(PATIENCE_S)
        except BaseException as error:
            told.append(error)

    going_on = threading.Thread(target=go_on)
    going_on.start()
    kill(f"marq-{name.format(queue.name)}")
    going_on.join(PATIENCE_S)

    assert isinstance(told[0], marq.QueueError), told


@pytest.mark.parametrize("name", ["m1", "acks", "fetch", "hand-0", "router"])
def test_an_instance_of_an_ordered_group_ends_with_the_error(
    doomed: marq.Broker, name: str
) -> None:
    queue = doomed.queue(new_name())
    group = doomed.group(queue.name, "g", max_members=2, members=["m1"])
    handled = threading.Event()

    def handle(delivery: marq.GroupDelivery) -> None:
        delivery.ack()
        handled.set()

    instance = group.consume("m1", handle)
    queue.send(b"1", key="k")
    assert handled.wait(PATIENCE_S)

    kill(f"marq-group-{name}")

    with pytest.raises((marq.QueueError, Killed)):
        assert instance.wait(PATIENCE_S)
