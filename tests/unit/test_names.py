"""Names of queues and where things go by their name."""

from __future__ import annotations

from typing import Any

import pytest

import marq
from marq.core import names
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
