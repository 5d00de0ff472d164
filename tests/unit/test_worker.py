"""Workers, beyond what every backend must do: idling, signals, and what a handler does wrong."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Awaitable
from typing import Any

import pytest

import marq
from marq import testing
from marq.backend import Handing, Inbox
from marq.work.job import Job
from marq.work.runner import Runner


def test_until_idle_everything_that_is_ready_is_handled(marq_broker: marq.Broker) -> None:
    orders, bills = marq_broker.queue("orders"), marq_broker.queue("bills")
    handled: list[str] = []

    @bills.handler()
    def bill(payload: str) -> None:
        handled.append(payload)

    @orders.handler()
    def order(payload: str) -> None:
        bills.send(f"bill for {payload}")

    orders.send_many(["1", "2", "3"])
    marq_broker.run(bills, orders, until_idle=True)

    assert sorted(handled) == ["bill for 1", "bill for 2", "bill for 3"]
    assert orders.stats() == bills.stats()


class SlowInbox:
    """Is interrupted each time it has taken something."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self.close, self.suspects, self.at_hand = inbox.close, inbox.suspects, inbox.at_hand

    def take(self, limit: int, wait_s: float, handing: Handing) -> list[marq.Delivery[Any]]:
        found = self._inbox.take(limit, wait_s, handing)
        if found:
            time.sleep(0.1)
        return found


def test_until_idle_waits_for_what_was_taken_and_is_not_yet_handled(
    marq_broker: marq.Broker,
) -> None:
    orders = marq_broker.queue("orders")
    handled: list[bytes] = []
    orders.handler()(handled.append)
    orders._inbox = SlowInbox(orders.inbox())
    orders.send(b"1")

    marq_broker.run(orders, until_idle=True)

    assert handled == [b"1"]


def test_until_idle_does_not_wait_for_what_someone_else_has(marq_broker: marq.Broker) -> None:
    orders = marq_broker.queue("orders")
    orders.handler()(lambda payload: None)
    orders.send(b"1")
    (delivery,) = orders.receive()

    marq_broker.run(orders, until_idle=True)

    delivery.ack()


def test_until_idle_does_not_wait_for_what_is_delayed(marq_broker: marq.Broker) -> None:
    orders = marq_broker.queue("orders")
    handled: list[bytes] = []
    orders.handler()(handled.append)

    orders.send(b"later", delay="1h")
    marq_broker.run(orders, until_idle=True)
    assert handled == []

    marq_broker.clock.advance("1h")
    marq_broker.run(orders, until_idle=True)
    assert handled == [b"later"]


def test_until_idle_does_not_wait_for_a_paused_queue(marq_broker: marq.Broker) -> None:
    orders = marq_broker.queue("orders")
    handled: list[bytes] = []
    orders.handler()(handled.append)
    orders.send(b"1")
    orders.pause()

    marq_broker.run(orders, until_idle=True)

    assert handled == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_after_its_handlers(
    marq_broker: marq.Broker, number: signal.Signals
) -> None:
    orders = marq_broker.queue("orders")
    before = signal.getsignal(number)
    handled: list[bytes] = []

    @orders.handler()
    def handle(payload: bytes) -> None:
        while signal.getsignal(number) is before:  # else the signal would end the whole test run
            time.sleep(0.001)
        os.kill(os.getpid(), number)
        handled.append(payload)

    orders.send(b"1")
    marq_broker.run(orders)

    assert handled == [b"1"]
    assert orders.stats().ready == orders.stats().in_flight == 0
    assert signal.getsignal(number) is before


def test_a_signal_that_comes_while_a_worker_starts_is_heard(
    marq_broker: marq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = marq_broker.queue("orders")
    orders.handler()(lambda payload: None)
    start = Runner.start

    def start_late(runner: Runner) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        start(runner)

    monkeypatch.setattr(Runner, "start", start_late)

    marq_broker.run(orders)


def test_a_second_signal_interrupts_a_worker_that_waits_for_its_handlers(
    marq_broker: marq.Broker,
) -> None:
    orders = marq_broker.queue("orders")
    go_on = threading.Event()

    @orders.handler()
    def handle(payload: bytes) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        while signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)
        go_on.wait(100)

    orders.send(b"1")
    with pytest.raises(KeyboardInterrupt):
        marq_broker.run(orders)
    go_on.set()


def test_a_worker_is_started_once(marq_broker: marq.Broker) -> None:
    orders = marq_broker.queue("orders")
    orders.handler()(lambda payload: None)
    with marq_broker.worker(orders) as worker, pytest.raises(marq.ConfigError, match="once"):
        worker.start()

    with pytest.raises(marq.ConfigError, match=r"make another by broker\.worker"):
        worker.start()


def test_a_run_ends_with_the_error_when_its_queue_is_deleted(marq_broker: marq.Broker) -> None:
    orders = marq_broker.queue("orders")
    orders.handler()(lambda payload: marq_broker.delete_queue("orders"))
    orders.send(b"1")

    with pytest.raises(marq.ConfigError, match="it was deleted"):
        marq_broker.run(orders)


def test_leaving_the_block_of_a_worker_that_failed_raises_its_error_once(
    marq_broker: marq.Broker,
) -> None:
    orders = marq_broker.queue("orders")
    orders.handler()([].append)
    worker = marq_broker.worker(orders)

    with pytest.raises(KeyError, match="injected"), worker:
        worker._runners[0]._fail(KeyError("injected"))

    worker.stop()


def test_leaving_it_by_an_error_raises_that_error(marq_broker: marq.Broker) -> None:
    orders = marq_broker.queue("orders")
    orders.handler()([].append)

    with pytest.raises(ValueError, match="the user's"), marq_broker.worker(orders) as worker:
        worker._runners[0]._fail(KeyError("injected"))
        raise ValueError("the user's")


def test_a_function_that_returns_an_awaitable_loses_no_message(marq_broker: marq.Broker) -> None:
    orders = marq_broker.queue("orders", max_attempts=1)

    async def work(payload: bytes) -> None: ...

    @orders.handler()
    def handle(payload: bytes) -> Awaitable[None]:
        return work(payload)

    orders.send(b"1")
    marq_broker.run(orders, until_idle=True)

    (letter,) = orders.dead_letters.list()
    assert "the handler returned an awaitable: make it an async def" in letter.reason


def test_a_failed_handler_is_logged_with_its_error(
    marq_broker: marq.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    orders = marq_broker.queue("orders")

    @orders.handler()
    def handle(payload: bytes) -> None:
        raise ValueError("boom")

    orders.send(b"1")
    with caplog.at_level(logging.WARNING, "marq"):
        marq_broker.run(orders, until_idle=True)

    (record,) = caplog.records
    assert (record.name, record.message) == ("marq.worker", "handler failed")
    assert record.exc_info is not None and str(record.exc_info[1]) == "boom"


def test_a_log_that_fails_keeps_no_failed_message(
    marq_broker: marq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = marq_broker.queue("orders", max_attempts=1)
    told = threading.Event()

    class Broken(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            told.set()
            raise ValueError("the user's")

    @orders.handler()
    async def handle(payload: bytes) -> None:
        raise ValueError("boom")

    orders.send(b"1")
    monkeypatch.setattr(logging.getLogger("marq.worker"), "filters", [Broken()])
    with marq_broker.worker(orders):
        assert told.wait(30)

    assert [letter.raw for letter in orders.dead_letters.list()] == [b"1"]


def test_a_lease_lost_while_the_handler_ran_is_logged_not_raised(
    marq_broker: marq.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    orders = marq_broker.queue("orders", lease="1s")
    attempts: list[int] = []

    @orders.handler(concurrency=1)
    def handle(payload: bytes, delivery: marq.Delivery[bytes]) -> None:
        attempts.append(delivery.attempt)
        if delivery.attempt == 1:
            testing.crash_workers(marq_broker)
            marq_broker.clock.advance("2s")

    orders.send(b"1")
    marq_broker.run(orders, until_idle=True)

    assert attempts == [1, 2]
    assert [record.message for record in caplog.records] == ["not settled"]


def test_what_a_timed_out_handler_still_does_is_ignored(marq_broker: marq.Broker) -> None:
    orders = marq_broker.queue("orders", max_attempts=1)
    started, go_on = threading.Event(), threading.Event()

    @orders.handler(timeout="1m")
    def handle(payload: bytes, delivery: marq.Delivery[bytes]) -> None:
        started.set()
        go_on.wait(100)

    orders.send(b"1")
    with marq_broker.worker(orders) as worker:
        assert started.wait(60)
        marq_broker.clock.advance("1m")
        while not orders.dead_letters.list():  # the worker looks every 100 ms
            time.sleep(0.005)
        go_on.set()
        worker.wait(until_idle=True)

    assert len(orders.dead_letters.list()) == 1
    assert orders.stats().ready == 0


def test_a_handler_that_hangs_after_its_lease_was_lost_is_given_up_once(
    marq_broker: marq.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    orders = marq_broker.queue("orders", lease="1s")
    orders.send(b"1")
    job = Job(orders.receive(1), 0)
    marq_broker.clock.advance("2s")

    for _ in range(3):
        job.give_up(0, "timeout")

    assert [record.message for record in caplog.records] == ["not settled"]
