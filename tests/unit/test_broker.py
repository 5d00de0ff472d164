"""Connecting: which URL means what, and what is wrong with the others."""

from __future__ import annotations

from typing import Any

import pytest

import marq
from marq.errors import ConfigError

KINDS = "use kafka://host:9092, embedded:// or memory://"


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("", KINDS),
        ("memory", KINDS),
        ("memory:", KINDS),
        ("localhost:9092", KINDS),
        ("http://localhost", KINDS),
        ("amqp://localhost", KINDS),
        ("kafka://", "kafka:// needs servers, like kafka://host1:9092"),
        ("kafka://host:9092/topic", "kafka:// needs servers"),
        ("memory://a/b", "memory:// takes a name at most"),
        ("embedded://data", "embedded:// takes a directory, with three slashes"),
        (7, "the setting 'url' is wrong"),
    ],
)
def test_a_wrong_url_is_refused(url: Any, advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        marq.connect(url)


def test_a_memory_broker_without_a_name_is_nobody_else_s() -> None:
    with marq.connect("memory://") as one, marq.connect("memory://") as other:
        one.queue("orders")

        assert other.queues() == []


def test_memory_brokers_of_one_name_are_one() -> None:
    with marq.connect("memory://test-broker") as one, marq.connect("Memory://test-broker") as other:
        one.queue("orders").send(b"1")

        assert other.queue("orders").receive()[0].payload == b"1"


def test_a_queue_is_the_same_object_each_time(marq_broker: marq.Broker) -> None:
    assert marq_broker.queue("orders") is marq_broker.queue("orders")


def test_a_type_given_later_counts(marq_broker: marq.Broker) -> None:
    orders = marq_broker.queue("orders")
    orders.send("7")

    marq_broker.queue("orders", type=int)

    assert orders.receive()[0].payload == 7


def test_the_type_stays_when_the_queue_is_opened_again_without(marq_broker: marq.Broker) -> None:
    marq_broker.queue("orders", type=int)

    assert marq_broker.queue("orders").type is int


@pytest.mark.parametrize("wrong", ["orders", None])
def test_a_worker_runs_queues_only(marq_broker: marq.Broker, wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"a worker runs queues, made by broker.queue\(...\)"):
        marq_broker.run(wrong)


def test_a_worker_needs_a_queue(marq_broker: marq.Broker) -> None:
    with pytest.raises(ConfigError, match="at least one queue"):
        marq_broker.run()


def test_a_queue_without_a_handler_cannot_be_run(marq_broker: marq.Broker) -> None:
    orders = marq_broker.queue("orders")

    with pytest.raises(ConfigError, match=r"has no handler: put @"):
        marq_broker.run(orders)


def test_a_closed_broker_runs_nothing(marq_broker: marq.Broker) -> None:
    orders = marq_broker.queue("orders")
    marq_broker.close()

    with pytest.raises(ConfigError, match="the broker is closed: connect again"):
        marq_broker.run(orders)
