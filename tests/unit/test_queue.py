"""A queue's own arguments."""

from __future__ import annotations

from typing import Any

import pytest

import marq
from marq.errors import ConfigError


@pytest.fixture
def orders(marq_broker: marq.Broker) -> marq.Queue[Any]:
    orders = marq_broker.queue("orders")
    orders.send(b"1")
    return orders


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ({"max": 0}, "max must be a whole number from 1 up, not 0"),
        ({"max": -1}, "max must be a whole number from 1 up"),
        ({"max": True}, "max must be a whole number from 1 up"),
        ({"max": "1"}, "max must be a whole number from 1 up"),
        ({"max": None}, "max must be a whole number from 1 up"),
        ({"wait": -1}, "wait must be between 0 and 3650d, not -1"),
        ({"wait": "soon"}, "wait must be a duration like"),
        ({"wait": None}, "wait must be a duration like"),
        ({"lease": 0}, "lease must be at least 100ms"),
        ({"lease": "-1s"}, "lease must be a duration like"),
    ],
)
def test_a_wrong_receive_takes_nothing(
    orders: marq.Queue[Any], given: dict[str, Any], advice: str
) -> None:
    with pytest.raises(ConfigError, match=advice):
        orders.receive(**given)

    assert orders.stats().in_flight == 0


@pytest.mark.parametrize(
    ("settle", "advice"),
    [
        (lambda d: d.retry(after=-1), "after must be between 0"),
        (lambda d: d.retry(after="soon"), "after must be a duration"),
        (lambda d: d.extend("soon"), "duration must be a duration"),
        (lambda d: d.extend(-1), "duration must be between 0"),
    ],
)
def test_a_wrong_settling_leaves_the_delivery_as_it_was(
    orders: marq.Queue[Any], settle: Any, advice: str
) -> None:
    (delivery,) = orders.receive()

    with pytest.raises(ConfigError, match=advice):
        settle(delivery)

    assert not delivery.settled
    delivery.ack()


def test_a_wrong_flush_is_refused(orders: marq.Queue[Any]) -> None:
    with pytest.raises(ConfigError, match="timeout must be a duration"):
        orders.flush("soon")


def test_queues_and_deliveries_say_what_they_are(orders: marq.Queue[Any]) -> None:
    (delivery,) = orders.receive()
    delivery.reject("no")
    (letter,) = orders.dead_letters.list()

    assert repr(orders) == "<Queue orders>"
    assert repr(delivery) == f"<Delivery {delivery.message_id} of orders, attempt 1>"
    assert repr(letter) == f"<DeadLetter {delivery.message_id} of orders: no>"
