"""The memory broker: time moves as the test says, and ends as if it had run by itself."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest

import marq
from marq import testing
from marq.memory.backend import Memory
from marq.memory.clock import Clock


@pytest.fixture
def orders(marq_broker: marq.Broker) -> marq.Queue[bytes]:
    return marq_broker.queue("orders", type=bytes)


def test_the_clock_runs_by_itself_and_can_be_moved_frozen_and_resumed() -> None:
    clock = Clock()
    before = clock.now_ms()
    clock.advance("1h")
    assert 3_600_000 <= clock.now_ms() - before < 3_660_000

    clock.freeze()
    frozen = clock.now_ms()
    time.sleep(0.005)
    assert clock.now_ms() == frozen
    assert not clock.running

    clock.advance(timedelta(seconds=1))
    assert clock.now_ms() == frozen + 1_000

    clock.resume()
    time.sleep(0.005)
    assert clock.now_ms() > frozen + 1_000


@pytest.mark.parametrize("wrong", [-1, "backwards"])
def test_the_clock_never_runs_backwards(marq_broker: marq.Broker, wrong: float | str) -> None:
    with pytest.raises(marq.ConfigError, match="duration must be"):
        marq_broker.clock.advance(wrong)


def test_a_frozen_clock_is_exact_to_the_millisecond(
    marq_broker: marq.Broker, orders: marq.Queue[bytes]
) -> None:
    marq_broker.clock.freeze()
    orders.send(b"1", delay="30s")

    marq_broker.clock.advance("29999ms")
    assert orders.receive() == []
    marq_broker.clock.advance("1ms")
    (delivery,) = orders.receive(lease="30s")

    marq_broker.clock.advance("29999ms")
    assert orders.receive() == []
    marq_broker.clock.advance("1ms")
    assert orders.receive()[0].attempt == 2
    with pytest.raises(marq.LeaseLost):
        delivery.ack()


def test_moving_the_clock_wakes_whoever_waits(
    marq_broker: marq.Broker, orders: marq.Queue[bytes]
) -> None:
    marq_broker.clock.freeze()
    orders.send(b"1", delay="1h")
    found: list[marq.Delivery[bytes]] = []
    receiver = threading.Thread(target=lambda: found.extend(orders.receive(wait="60s")))
    receiver.start()

    marq_broker.clock.advance("1h")
    receiver.join(60)

    assert len(found) == 1


def test_everything_due_on_the_way_happens_in_its_order(marq_broker: marq.Broker) -> None:
    orders = marq_broker.queue("in-order", partitions=1)
    orders.send(b"abandoned")
    orders.receive()
    orders.send(b"delayed", delay="1d")

    marq_broker.clock.advance("7d")

    assert [(d.payload, d.attempt) for d in orders.receive(10)] == [
        (b"abandoned", 2),
        (b"delayed", 1),
    ]


def test_a_reject_counts_at_once_however_long_nothing_happened_before(
    marq_broker: marq.Broker, orders: marq.Queue[bytes]
) -> None:
    marq_broker.clock.advance("1h")
    orders.send(b"1")
    (delivery,) = orders.receive()

    delivery.reject("no")

    assert [letter.reason for letter in orders.dead_letters.list()] == ["no"]


@pytest.mark.parametrize("ahead", ["0s", "1s", "2s", "3s", "7s", "8s", "1h"])
def test_a_lease_ends_on_time_whenever_the_clock_was_moved_before(
    marq_broker: marq.Broker, orders: marq.Queue[bytes], ahead: str
) -> None:
    marq_broker.clock.freeze()
    marq_broker.clock.advance(ahead)
    orders.send(b"1")
    orders.receive(lease="9s")

    marq_broker.clock.advance("8999ms")
    assert orders.receive() == []
    marq_broker.clock.advance("1ms")
    assert orders.receive()[0].attempt == 2


@pytest.mark.parametrize("lease", ["100ms", "1s", "30s", "1h"])
def test_a_live_handler_keeps_its_message_however_far_the_clock_is_moved(
    marq_broker: marq.Broker, lease: str
) -> None:
    orders = marq_broker.queue("kept", lease=lease)
    started, finish = threading.Event(), threading.Event()
    attempts: list[int] = []

    @orders.handler(timeout="30d")
    def handle(payload: bytes, delivery: marq.Delivery[bytes]) -> None:
        attempts.append(delivery.attempt)
        started.set()
        finish.wait(100)

    orders.send(b"1")
    with marq_broker.worker(orders):
        assert started.wait(60)
        for step in ("50ms", "3s", "1m", "1h", "7d"):
            marq_broker.clock.advance(step)
            assert orders.stats().in_flight == 1
        finish.set()

    assert attempts == [1]
    assert orders.stats().in_flight == 0


def test_moving_the_clock_by_weeks_takes_no_time(
    marq_broker: marq.Broker, orders: marq.Queue[bytes]
) -> None:
    orders.send(b"soon", delay="5s")
    orders.receive()
    started = time.monotonic()

    marq_broker.clock.advance("30d")

    assert time.monotonic() - started < 20


def test_a_crashed_worker_s_prefetched_messages_come_back_after_eleven_seconds(
    marq_broker: marq.Broker, orders: marq.Queue[bytes]
) -> None:
    marq_broker.clock.freeze()
    orders.send(b"1", delay="1s")
    assert orders.receive() == []
    testing.crash_workers(marq_broker)

    marq_broker.clock.advance("10999ms")
    assert orders.receive() == []
    marq_broker.clock.advance("1ms")
    assert orders.receive()[0].attempt == 1


def test_a_long_retry_is_parked_and_on_time(
    marq_broker: marq.Broker, orders: marq.Queue[bytes]
) -> None:
    marq_broker.clock.freeze()
    orders.send(b"1")
    orders.receive()[0].retry(after="2h")

    marq_broker.clock.advance("7199999ms")
    assert orders.receive() == []
    marq_broker.clock.advance("1ms")
    assert orders.receive()[0].attempt == 2


def test_a_message_s_payload_is_let_go_when_it_has_ended(
    marq_broker: marq.Broker, orders: marq.Queue[bytes]
) -> None:
    backend = marq_broker.backend
    assert isinstance(backend, Memory)
    orders.send_many([b"x"] * 50)
    orders.send_many([b"x"] * 50, delay="1m")
    marq_broker.clock.advance("1m")

    for delivery in orders.receive(100):
        delivery.ack()

    topics = ("orders", "marq.markers", "marq.delayed")
    assert [len(backend.shared.log.create(topic, 1)) for topic in topics] == [0, 0, 0]
    assert not backend.shared.tracker.markers.claims
