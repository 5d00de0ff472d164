"""The pytest plugin: a memory broker for each test that asks for one."""

from __future__ import annotations

import pytest

import marq
from marq import testing
from marq.errors import ConfigError


def test_each_test_has_a_broker_of_its_own(marq_broker: marq.Broker) -> None:
    assert marq_broker.queues() == []
    marq_broker.queue("orders")


def test_and_sees_nothing_of_another_test(marq_broker: marq.Broker) -> None:
    assert marq_broker.queues() == []
    marq_broker.queue("orders")


def test_time_goes_by_as_the_test_says(marq_broker: marq.Broker) -> None:
    orders = marq_broker.queue("orders", lease="30s")
    orders.send(b"1")
    orders.receive()

    marq_broker.clock.advance("30s")

    assert orders.receive()[0].attempt == 2


def test_only_a_memory_broker_has_a_clock_to_move(marq_broker: marq.Broker) -> None:
    other = marq.Broker(object(), marq.Settings())  # type: ignore[arg-type]

    with pytest.raises(ConfigError, match="only a memory:// broker has a clock"):
        _ = other.clock
    with pytest.raises(ConfigError, match="only the workers of a memory:// broker"):
        testing.crash_workers(other)
