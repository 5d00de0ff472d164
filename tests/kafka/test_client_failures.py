"""What goes wrong inside the client on a real broker: an error the user sees, never silence."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest

import marq
from marq import embedded
from marq.kafka.backend import Kafka
from marq.kafka.leasing.handout import Handout
from marq.kafka.receiving import prefetch
from marq.kafka.receiving.helm import Helm
from marq.kafka.receiving.stages import Stages
from tests.e2e.kafka_fixtures import NewQueue, new_name
from tests.e2e.kafka_oracle import Oracle
from tests.e2e.kafka_process import eventually

pytestmark = [pytest.mark.java, pytest.mark.kafka]

PATIENCE_S = 30.0


@pytest.fixture
def doomed(kafka: embedded.Runtime) -> Iterator[marq.Broker]:
    """A broker that has told by the end of the test that it cannot go on; closing tells again."""
    broker = marq.connect(f"kafka://{kafka.bootstrap_servers}")
    yield broker
    with contextlib.suppress(marq.QueueError):
        broker.close()


def die(*_: object) -> NoReturn:
    raise RuntimeError("injected")


def kill_flusher(backend: Kafka, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(backend.markers.clock, "tick", die)
    backend.markers._flusher.join(PATIENCE_S)


def kill_beats(backend: Kafka, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(backend.markers, "_beat", die)


def kill_reporter(backend: Kafka, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(backend.markers._producer, "_hear", die)
    backend.markers._producer._poller.join(PATIENCE_S)


def kill_sender(backend: Kafka, patch: pytest.MonkeyPatch) -> None:
    for sender in (backend.sender, backend.senders.prompt):
        patch.setattr(sender, "_hear", die)
        sender._poller.join(PATIENCE_S)


def kill_pump(backend: Kafka, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Stages, "work", die)


@pytest.mark.parametrize("kill", [kill_flusher, kill_beats, kill_reporter, kill_sender, kill_pump])
def test_a_worker_whose_thread_dies_ends_with_the_error(
    doomed: marq.Broker,
    monkeypatch: pytest.MonkeyPatch,
    kill: Callable[[Kafka, pytest.MonkeyPatch], None],
) -> None:
    queue = doomed.queue(new_name())
    handled = threading.Event()

    @queue.handler()
    def handle(payload: bytes) -> None:
        handled.set()

    queue.send(b"1")
    worker = doomed.worker(queue)
    worker.start()
    assert handled.wait(PATIENCE_S)
    assert isinstance(doomed.backend, Kafka)
    with monkeypatch.context() as patch:
        kill(doomed.backend, patch)

        with pytest.raises(marq.QueueError, match="injected"):
            worker.wait()


@pytest.fixture
def always_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever takes messages polls for himself, however few they are."""
    monkeypatch.setattr(prefetch, "FAST", 0)


def keep_pump_away(patch: pytest.MonkeyPatch, until: threading.Event) -> None:
    """Let takers alone poll until then."""
    take = Helm.take
    patch.setattr(Helm, "take", lambda self, wait_s: until.wait(wait_s) and take(self, wait_s))


def test_what_fails_while_a_taker_polls_is_told_to_whoever_takes(
    doomed: marq.Broker, monkeypatch: pytest.MonkeyPatch, always_fast: None
) -> None:
    queue = doomed.queue(new_name())
    queue.receive(1)
    failed = threading.Event()

    def fail(*_: object) -> NoReturn:
        failed.set()
        die()

    monkeypatch.setattr(Stages, "work_in_passing", fail)
    keep_pump_away(monkeypatch, failed)

    with pytest.raises(marq.QueueError, match="injected"):
        for _ in range(100):
            queue.receive(1, "1s")


def test_an_interrupt_while_a_taker_polls_loses_no_message(
    new_queue: NewQueue, oracle: Oracle, monkeypatch: pytest.MonkeyPatch, always_fast: None
) -> None:
    queue = new_queue(partitions=1)
    queue.receive(1)
    claim, interrupted = Stages._claim, threading.Event()

    def interrupt(self: Stages, batch: list[Any]) -> None:
        if threading.current_thread() is threading.main_thread() and not interrupted.is_set():
            interrupted.set()
            raise KeyboardInterrupt
        claim(self, batch)

    monkeypatch.setattr(Stages, "_claim", interrupt)
    keep_pump_away(monkeypatch, interrupted)
    sent = {sent.message_id for sent in queue.send_many([b"x"] * 500)}
    acked: set[str] = set()

    def ack_all() -> bool:
        with contextlib.suppress(KeyboardInterrupt):
            for delivery in queue.receive(20, "1s"):
                acked.add(delivery.message_id)
                delivery.ack()
        return acked == sent

    assert eventually(ack_all)
    queue.flush("20s")
    assert interrupted.is_set()
    assert oracle.look(queue.name).acked == sent


@pytest.mark.parametrize("kill", [kill_flusher, kill_reporter])
def test_acks_that_nobody_writes_any_more_are_errors(
    doomed: marq.Broker,
    monkeypatch: pytest.MonkeyPatch,
    kill: Callable[[Kafka, pytest.MonkeyPatch], None],
) -> None:
    queue = doomed.queue(new_name())
    queue.send_many([b"1", b"2"])
    first, second = queue.receive(1, "20s"), queue.receive(1, "20s")
    assert isinstance(doomed.backend, Kafka)
    with monkeypatch.context() as patch:
        kill(doomed.backend, patch)
        with pytest.raises(marq.QueueError, match="injected"):
            first[0].ack().result(PATIENCE_S)

    for call in (queue.flush, lambda: queue.receive(1, "20s"), second[0].ack().result):
        with pytest.raises(marq.QueueError, match="injected"):
            call()


def test_what_nobody_reports_any_more_was_not_sent(
    doomed: marq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = doomed.queue(new_name())
    queue.send(b"1")
    assert isinstance(doomed.backend, Kafka)
    with monkeypatch.context() as patch:
        kill_sender(doomed.backend, patch)

    for call in (queue.flush, lambda: queue.send(b"2")):
        with pytest.raises(marq.QueueError, match="injected"):
            call()


def test_a_report_that_fails_is_told_and_the_next_ack_is_durable(
    new_queue: NewQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = new_queue()
    queue.send_many([b"1", b"2"])
    first, second = queue.receive(1, "20s")[0], queue.receive(1, "20s")[0]

    with monkeypatch.context() as patch:
        patch.setattr(Handout, "judge", die)
        with pytest.raises(RuntimeError, match="injected"):
            first.ack().result(PATIENCE_S)

    second.ack().result(PATIENCE_S)
    queue.flush("20s")


def test_more_rejects_than_fit_into_a_record_are_all_in_the_log(
    new_queue: NewQueue, oracle: Oracle
) -> None:
    queue = new_queue(partitions=1)
    queue.send_many([b"x"] * 2_500)
    found: list[marq.Delivery[Any]] = []
    while len(found) < 2_500:
        found += queue.receive(2_500, "20s")

    receipts = [delivery.reject("ö" * 300) for delivery in found]
    for receipt in receipts:
        receipt.result(PATIENCE_S)

    held = sum(part.indexes.bit_count() for part in oracle.parts(queue.name) if part.reason)
    assert held == 2_500


def test_a_task_that_awaits_an_ack_needs_no_thread(new_queue: NewQueue) -> None:
    queue = new_queue()
    queue.send_many([b"x"] * 100)
    found: list[marq.Delivery[Any]] = []
    while len(found) < 100:
        found += queue.receive(100, "20s")

    async def settle() -> int:
        sent = [queue.send_nowait(b"y") for _ in range(100)]
        await asyncio.wait_for(asyncio.gather(*(_of(each.ack()) for each in found)), PATIENCE_S)
        await asyncio.wait_for(asyncio.gather(*map(_of, sent)), PATIENCE_S)
        return sum(thread.name.startswith("asyncio") for thread in threading.enumerate())

    assert asyncio.run(settle()) == 0


async def _of(receipt: Any) -> Any:
    return await receipt


def test_what_cannot_be_given_back_is_kept_from_nobody(
    broker: marq.Broker, new_queue: NewQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = new_queue()
    handling, over = threading.Event(), threading.Event()
    told: list[BaseException] = []

    @queue.handler()
    def handle(payload: bytes, delivery: marq.Delivery[bytes]) -> None:
        try:
            with monkeypatch.context() as patch:
                patch.setattr(delivery._handout.home, "write", die)  # type: ignore[attr-defined]
                delivery.give_back()
        except RuntimeError as error:
            told.append(error)
        handling.set()
        over.wait(PATIENCE_S)

    queue.send(b"1")
    with broker.worker(queue):
        assert handling.wait(PATIENCE_S)
        assert told
        assert isinstance(broker.backend, Kafka)
        ledgers = broker.backend.markers.ledgers
        assert eventually(lambda: not any(ledger.kept or ledger.claims for ledger in ledgers))
        over.set()


def test_what_was_received_and_let_lapse_is_let_go_of(
    broker: marq.Broker, new_queue: NewQueue, oracle: Oracle
) -> None:
    queue = new_queue(lease="1s", partitions=1)
    queue.send_many([b"x"] * 10)
    found: list[marq.Delivery[Any]] = []
    while len(found) < 10:
        found += queue.receive(10, "20s")
    assert isinstance(broker.backend, Kafka)
    markers = broker.backend.markers
    assert markers.in_hands()

    assert eventually(lambda: not markers.in_hands())

    assert not any(ledger.claims for ledger in markers.ledgers)
    with pytest.raises(marq.LeaseLost):
        found[0].ack().result(PATIENCE_S)
