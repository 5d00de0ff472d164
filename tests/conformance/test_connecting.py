"""Brokers: closed with everything they opened, closed twice without harm."""

from __future__ import annotations

import threading

import pytest

import marq
from tests.conformance.world import World


def test_a_second_broker_sees_the_same_queues(world: World) -> None:
    orders = world.queue()
    orders.send(b"1")

    other = world.reconnect()

    assert world.names(other) == [orders.name]
    assert world.take_one(other.queue(orders.name)).payload == b"1"


def test_a_broker_is_closed_when_its_block_is_left(world: World) -> None:
    with world.reconnect() as broker:
        broker.queue("orders")

    with pytest.raises(marq.ConfigError, match="the broker is closed: connect again"):
        broker.queue("orders")


def test_closing_twice_is_harmless(world: World) -> None:
    broker = world.reconnect()
    broker.close()

    broker.close()


def test_closing_ends_whoever_waits_for_messages(world: World) -> None:
    broker = world.reconnect()
    orders = broker.queue(world.name())
    orders.receive()
    found: list[object] = ["waiting"]
    receiver = threading.Thread(target=lambda: found.__setitem__(0, orders.receive(wait="60s")))
    receiver.start()

    broker.close()
    receiver.join(world.patience_s)

    assert found == [[]]


def test_closing_stops_the_workers(world: World) -> None:
    broker = world.reconnect()
    orders = broker.queue(world.name())
    orders.handler()(lambda payload: None)
    worker = broker.worker(orders)
    worker.start()

    broker.close()

    elsewhere = world.broker.queue(orders.name)
    elsewhere.send(b"1")
    assert world.take_one(elsewhere).payload == b"1"
