"""Names of queues and where things go by their name."""

from __future__ import annotations

from typing import Any

import pytest

import marq
from marq.core import names
from marq.core.catalog.definitions import QueueDefinition
from marq.errors import ConfigError


@pytest.mark.parametrize("name", ["orders", "a", "9", "shop.orders-v2_x", "o" * 200, "px", "sub"])
def test_a_queue_may_have_this_name(name: str) -> None:
    assert names.queue_name(name) == name


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("my orders", "letters, digits"),
        ("orders\n", "letters, digits"),
        ("bestellungen/ä", "letters, digits"),
        (".orders", "starts with a letter or digit"),
        ("-orders", "starts with a letter or digit"),
        ("o" * 300, "may have 200 characters, this one has 300: shorten it"),
        ("marq.orders", "a name marq uses itself"),
        ("MARQ.orders", "a name marq uses itself"),
        ("dlq.orders", "a name marq uses itself"),
        ("orders.p1", "a name marq uses itself"),
        ("orders.sub.audit", "a name marq uses itself"),
        ("orders.group.billing", "a name marq uses itself"),
        ("marq-pay.orders", "a name marq uses itself"),
        ("group.orders.billing", "a name marq uses itself"),
        ("orders.sub", "a name marq uses itself"),
        ("orders.group", "a name marq uses itself"),
        ("", "must be a text"),
        (None, "must be a text"),
        (7, "must be a text"),
    ],
)
def test_a_wrong_name_is_refused_before_anything_is_written(
    marq_broker: marq.Broker, name: Any, advice: str
) -> None:
    with pytest.raises(ConfigError, match=advice):
        marq_broker.queue(name)

    assert marq_broker.queues() == []


def test_a_queue_that_has_a_name_reserved_since_goes_on_to_work(
    marq_broker: marq.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    assert marq_broker.backend.change("orders.sub", QueueDefinition(), 0)

    queue = marq_broker.queue("orders.sub")
    queue.send(b"x")

    assert [each.payload for each in queue.receive()] == [b"x"]
    assert "let this one run empty, and delete it" in caplog.text


def test_a_name_that_kafka_cannot_tell_from_another_one_is_refused(
    marq_broker: marq.Broker,
) -> None:
    marq_broker.queue("shop.orders")

    with pytest.raises(ConfigError, match=r"too close to queue 'shop\.orders'"):
        marq_broker.queue("shop_orders")
    assert marq_broker.queue("shop.orders").name == "shop.orders"


@pytest.mark.parametrize(
    "topic",
    ["orders", "dlq.orders", "orders.p7", "orders.sub.audit", "orders.sub.audit.p1",
     "dlq.orders.sub.audit", "orders.group.billing.control", "orders/tenant-42"],
)  # fmt: skip
def test_a_topic_tells_its_queue(topic: str) -> None:
    assert names.home(topic) == "orders"


def test_the_topics_of_the_longest_name_fit_into_kafka_s_249_characters() -> None:
    assert len(names.dead_letters("o" * names.MAX_NAME)) <= 249


def test_equal_keys_go_to_one_partition_and_different_ones_spread() -> None:
    placed = [names.key_partition(f"key {n}".encode(), 4) for n in range(100)]

    assert placed == [names.key_partition(f"key {n}".encode(), 4) for n in range(100)]
    assert set(placed) == {0, 1, 2, 3}


def test_a_key_goes_where_librdkafka_s_default_partitioner_takes_it() -> None:
    """By the CRC-32 of the key: 0xCBF43926 is its published check value."""
    assert names.key_partition(b"123456789", 1_000) == 0xCBF43926 % 1_000


def test_the_markers_of_one_source_partition_go_to_one_place() -> None:
    placed = [names.markers_partition("orders", partition, 8) for partition in range(8)]

    assert sorted(placed) == list(range(8))
