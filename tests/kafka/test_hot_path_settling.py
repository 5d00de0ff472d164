"""What the log says after messages were settled, by the fold the tracker will use."""

from __future__ import annotations

import threading
import time
from typing import Any

import msgspec
import pytest

import marq
from marq.core.fate.parking import AHEAD_MS
from marq.core.markers.marker import Action
from marq.kafka import backend
from marq.kafka.cluster.catalog_log import CatalogLog
from marq.kafka.receiving import room
from tests.e2e.kafka_fixtures import Connect, NewQueue
from tests.e2e.kafka_oracle import Oracle
from tests.e2e.kafka_process import eventually

pytestmark = [pytest.mark.java, pytest.mark.kafka]


class Order(msgspec.Struct):
    number: int


def take(queue: marq.Queue[Any], wait: str = "60s") -> marq.Delivery[Any]:
    (delivery,) = queue.receive(1, wait)
    return delivery


def test_a_message_rejected_at_once_is_held_for_burial(new_queue: NewQueue, oracle: Oracle) -> None:
    queue = new_queue()
    queue.send(b"1")

    take(queue).reject("no good").result(60)

    (part,) = oracle.parts(queue.name)
    assert (part.action, part.reason, part.attempt) == (Action.BURY, "no good", 1)


def test_a_message_put_off_at_once_is_held_for_its_time(
    new_queue: NewQueue, oracle: Oracle
) -> None:
    queue = new_queue()
    queue.send(b"1")

    take(queue).retry("20s").result(60)

    (part,) = oracle.parts(queue.name)
    assert (part.action, part.attempt) == (Action.REDELIVER, 1)


def test_a_lease_extended_at_once_is_longer(
    broker: marq.Broker, new_queue: NewQueue, oracle: Oracle
) -> None:
    queue = new_queue(lease="2s")
    queue.send(b"1")
    delivery = take(queue)
    over = delivery.deadline

    delivery.extend("1m").result(60)
    assert eventually(lambda: broker.backend.now_ms() > over.timestamp() * 1_000)

    (part,) = oracle.parts(queue.name)
    assert part.deadline_ms - part.lease_ms > 50_000
    delivery.ack().result(60)
    assert oracle.look(queue.name).acked


def test_a_payload_that_does_not_decode_is_buried_with_the_reason_and_its_bytes_stay(
    broker: marq.Broker, new_queue: NewQueue, oracle: Oracle
) -> None:
    queue = new_queue(type=Order, partitions=1)
    handled: list[int] = []

    @queue.handler()
    def handle(order: Order) -> None:
        handled.append(order.number)

    marq.Queue(broker.backend, queue.name).send(b"{not an order")
    queue.send(Order(7))

    with broker.worker(queue) as worker:
        assert eventually(lambda: oracle.look(queue.name).unfinished == {f"{queue.name}:0:0"})
        worker.stop()

    (part,) = oracle.parts(queue.name)
    assert part.action is Action.BURY
    assert "Order" in part.reason or "decode" in part.reason or "JSON" in part.reason
    assert handled == [7]
    assert oracle.look(queue.name).open == {f"{queue.name}:0:0"}


def test_a_delayed_message_does_not_keep_others_waiting(new_queue: NewQueue) -> None:
    queue = new_queue(partitions=1)
    queue.receive(1)
    queue.send_many([b"later"] * 3, delay="4s")
    assert queue.receive(1, "1s") == []

    queue.send(b"now")
    delivery = take(queue)

    assert delivery.payload == b"now"
    delivery.ack()
    for _ in range(3):
        take(queue).ack()


def test_what_finds_no_room_to_wait_in_is_held_for_the_tracker(
    new_queue: NewQueue, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "LATER", 2)
    queue = new_queue(partitions=1)
    for _ in range(5):
        queue.send(b"later", delay="6s")
    queue.send(b"now")

    assert take(queue).payload == b"now"

    def held() -> list[Any]:
        return [part for part in oracle.parts(queue.name) if part.action is Action.REDELIVER]

    assert eventually(lambda: sum(part.indexes.bit_count() for part in held()) == 3)
    assert {(part.attempt, part.ahead_ms) for part in held()} == {(0, AHEAD_MS)}
    assert [take(queue).payload for _ in range(2)] == [b"later"] * 2


def test_a_retry_that_finds_no_room_to_wait_in_is_held_for_the_tracker(
    new_queue: NewQueue, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "LATER", 0)
    queue = new_queue()
    queue.send(b"1")

    take(queue).retry("1s").result(60)

    (part,) = oracle.parts(queue.name)
    assert (part.action, part.attempt, part.ahead_ms) == (Action.REDELIVER, 1, AHEAD_MS)
    assert queue.receive(1, "2s") == []


@pytest.mark.parametrize("delay", ["300ms", "1500ms"])
def test_a_delay_below_ten_seconds_is_kept_to_the_millisecond(
    new_queue: NewQueue, broker: marq.Broker, delay: str
) -> None:
    queue = new_queue()
    queue.receive(1)
    sent = queue.send(b"1", delay=delay)
    assert sent.due is not None

    delivery = take(queue)
    late_ms = broker.backend.now_ms() - sent.due.timestamp() * 1_000

    print(f"late by {late_ms:.0f} ms")
    assert 0 <= late_ms < 20_000
    delivery.ack().result(60)


def test_a_retry_below_ten_seconds_is_kept_to_the_millisecond(
    new_queue: NewQueue, broker: marq.Broker, oracle: Oracle
) -> None:
    queue = new_queue()
    queue.send(b"1")
    first = take(queue)
    asked_ms = broker.backend.now_ms()
    first.retry("700ms").result(60)

    delivery = take(queue)
    late_ms = broker.backend.now_ms() - asked_ms - 700

    print(f"late by {late_ms:.0f} ms")
    assert 0 <= late_ms < 20_000
    assert delivery.attempt == 2
    delivery.ack().result(60)
    assert oracle.look(queue.name).acked


def test_a_retry_given_back_keeps_its_attempt_and_is_not_early(connect: Connect) -> None:
    first, second = connect(), connect()
    queue = first.queue("given-back-retry", partitions=1)
    queue.send(b"1")
    delivery = take(queue)
    due = time.monotonic() + 3
    delivery.retry("3s", "busy").result(60)

    first.close()
    again = take(second.queue("given-back-retry"))

    assert time.monotonic() > due - 0.5
    assert again.attempt == 2
    assert failed_before(again) == [(1, "busy")]
    again.ack()


def test_what_failed_before_a_message_was_given_back_stays_in_its_history(
    new_queue: NewQueue,
) -> None:
    queue = new_queue()
    queue.send(b"1")
    take(queue).retry("0s", "busy").result(60)
    take(queue).retry("0s", "busy still").result(60)

    take(queue).give_back().result(60)

    again = take(queue)
    assert again.attempt == 3
    assert failed_before(again) == [(1, "busy"), (2, "busy still")]
    again.ack()


def failed_before(delivery: marq.Delivery[Any]) -> list[tuple[int, str]]:
    return [(past.attempt, past.reason) for past in delivery._stored.meta().history]


def test_a_handler_that_runs_longer_than_its_lease_is_kept_alive(
    broker: marq.Broker, new_queue: NewQueue, oracle: Oracle
) -> None:
    queue = new_queue(lease="3s")
    outcomes: list[object] = []

    @queue.handler()
    def handle(payload: bytes, delivery: marq.Delivery[bytes]) -> None:
        time.sleep(5)
        try:
            outcomes.append(delivery.ack().result(60))
        except marq.LeaseLost as error:
            outcomes.append(error)

    queue.send_many([b"1", b"2", b"3"])
    with broker.worker(queue):
        assert eventually(lambda: len(outcomes) == 3)

    assert outcomes == [None, None, None]
    assert len(oracle.look(queue.name).acked) == 3


def test_a_handler_past_its_timeout_is_not_kept_alive(
    broker: marq.Broker, new_queue: NewQueue, oracle: Oracle
) -> None:
    queue = new_queue(max_attempts=1)
    hanging, over = threading.Event(), threading.Event()

    @queue.handler(timeout="500ms")
    def handle(payload: bytes) -> None:
        hanging.set()
        over.wait(100)

    queue.send(b"1")
    with broker.worker(queue) as worker:
        assert hanging.wait(100)
        assert eventually(
            lambda: [p.action for p in oracle.parts(queue.name)] == [Action.REDELIVER]
        )
        over.set()
        worker.stop()

    (part,) = oracle.parts(queue.name)
    assert "timeout" in part.reason
    assert oracle.look(queue.name).open


def test_whoever_takes_messages_asks_no_broker_what_the_catalog_says(
    new_queue: NewQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = new_queue()
    queue.receive(1)
    asked: list[str] = []
    read = CatalogLog.read

    def noted(self: CatalogLog, *about: Any) -> Any:
        asked.append(threading.current_thread().name)
        return read(self, *about)

    monkeypatch.setattr(backend, "_KNOWN_S", 600.0)  # however slow the machine is
    monkeypatch.setattr(CatalogLog, "read", noted)

    assert eventually(lambda: not queue.receive(1, "10ms") and len(asked) >= 3)
    assert set(asked) == {f"marq-pump-{queue.name}"}
