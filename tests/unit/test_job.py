"""Messages handled one after the other by one hand: each comes out as if it had been alone."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import marq
from marq.work.handler import Handler
from marq.work.job import Job


def run_each(queue: marq.Queue[Any], function: Any) -> Job:
    handler = Handler.of(function, queue.type, 1, "1m", False)
    job = Job([], 0)
    job.run_each(handler, queue.name, iter(queue.receive(10)))
    return job


def test_each_is_handled_and_acked(marq_broker: marq.Broker) -> None:
    orders = marq_broker.queue("orders", partitions=1)
    orders.send_many([b"1", b"2"])
    handled: list[tuple[bytes, int]] = []

    def handle(payload: bytes, delivery: marq.Delivery[bytes]) -> None:
        handled.append((payload, delivery.attempt))

    run_each(orders, handle)

    assert handled == [(b"1", 1), (b"2", 1)]
    assert orders.stats().in_flight == 0


def test_one_that_fails_is_retried_and_the_next_is_handled(
    marq_broker: marq.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    orders = marq_broker.queue("orders", partitions=1, max_attempts=1)
    orders.send_many([b"bad", b"good", b"out"])
    handled: list[bytes] = []

    def handle(payload: bytes) -> None:
        if payload == b"bad":
            raise ValueError("no such order")
        if payload == b"out":
            raise SystemExit
        handled.append(payload)

    run_each(orders, handle)

    assert handled == [b"good"]
    reasons = {letter.raw: letter.reason for letter in orders.dead_letters.list()}
    assert "ValueError: no such order" in reasons[b"bad"]
    assert "SystemExit" in reasons[b"out"]


def test_one_that_does_not_decode_is_buried_and_the_next_is_handled(
    marq_broker: marq.Broker,
) -> None:
    orders = marq_broker.queue("orders", partitions=1)
    orders.send_many([b"no number", b"7"])
    handled: list[int] = []

    def handle(payload: int) -> None:
        handled.append(payload)

    run_each(orders, handle)

    assert handled == [7]
    assert len(orders.dead_letters.list()) == 1


def test_what_the_handler_decided_stands(marq_broker: marq.Broker) -> None:
    orders = marq_broker.queue("orders", partitions=1)
    orders.send_many([b"1", b"2"])

    def handle(delivery: marq.Delivery[bytes]) -> None:
        if delivery.payload == b"1":
            delivery.reject("no")

    run_each(orders, handle)

    assert [letter.reason for letter in orders.dead_letters.list()] == ["no"]
    assert orders.stats().in_flight == 0


def test_a_lease_lost_meanwhile_is_told_and_the_next_is_acked(
    marq_broker: marq.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    orders = marq_broker.queue("orders", partitions=1, lease="1s")
    orders.send_many([b"slow", b"next"])

    def handle(payload: bytes, delivery: marq.Delivery[bytes]) -> None:
        if payload == b"slow":
            marq_broker.clock.advance("2s")

    with caplog.at_level(logging.WARNING, "marq.worker"):
        run_each(orders, handle)

    assert "not settled" in caplog.text


def test_an_awaitable_loses_no_message(marq_broker: marq.Broker) -> None:
    orders = marq_broker.queue("orders", partitions=1, max_attempts=1)
    orders.send(b"1")

    async def later(payload: bytes) -> None: ...

    run_each(orders, lambda payload: later(payload))

    (letter,) = orders.dead_letters.list()
    assert "awaitable" in letter.reason


def test_what_has_run_too_long_is_the_one_at_hand_only(marq_broker: marq.Broker) -> None:
    orders = marq_broker.queue("orders", partitions=1, max_attempts=1)
    orders.send_many([b"1", b"2"])
    job = Job([], 0)

    def handle(payload: bytes) -> None:
        if payload == b"2":
            job.give_up(0, "timeout")

    handler = Handler.of(handle, None, 1, "1m", False)
    job.run_each(handler, orders.name, iter(orders.receive(2)))

    (letter,) = orders.dead_letters.list()
    assert letter.raw == b"2"
    assert "timeout" in letter.reason
