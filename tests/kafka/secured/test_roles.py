"""Each role does its whole work with its least rights, and is told which one it lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import marq
from marq.errors import ConfigError
from tests.e2e.kafka_process import eventually
from tests.kafka.secured import roles
from tests.kafka.secured.cluster import Secured

pytestmark = [pytest.mark.java, pytest.mark.kafka]

APP = (*roles.application("shop"), *roles.member("shop"))


@pytest.fixture(scope="module")
def operator(secured: Secured) -> Iterator[marq.Broker]:
    secured.allow("operator", *roles.operator())
    with connected(secured, "operator") as broker:
        broker.queue("shop-orders", partitions=1)
        broker.group("shop-orders", "billing", max_members=1, members=["m"])
        yield broker


def connected(secured: Secured, user: str) -> marq.Broker:
    settings = secured.login(user)
    return marq.connect(f"kafka://{secured.servers}", kafka=settings, connect_timeout="20s")


def test_an_application_works_with_its_least_rights_and_an_operator_with_his(
    secured: Secured, operator: marq.Broker
) -> None:
    secured.allow("app", *APP)
    orders = operator.queue("shop-work", partitions=1)
    with connected(secured, "app") as app:
        work = app.queue("shop-work")
        sent = work.send(b"1")
        work.send(b"parked", delay="1h")
        (delivery,) = work.receive(wait="60s")
        delivery.retry(after="0s").result(30)
        (again,) = work.receive(wait="60s")
        again.ack().result(30)
        work.flush()
        counts = work.stats()
        letters = work.dead_letters.list()
        got: list[Any] = []

        operator.group("shop-work", "billing", max_members=1, members=["m"])
        with app.group("shop-work", "billing").consume("m", lambda each: take(each, got)):
            work.send(b"2", key="k")
            assert eventually(lambda: b"2" in got, 60)

    assert (delivery.message_id, again.attempt) == (sent.message_id, 2)
    assert (counts.in_flight, counts.dead, letters) == (0, 0, [])
    orders.update(lease="1m")
    orders.purge()
    operator.delete_queue("shop-work")
    assert "shop-work" not in operator.queues()


def take(delivery: Any, got: list[Any]) -> None:
    got.append(delivery.payload)
    delivery.ack()


def opens(broker: marq.Broker) -> None:
    broker.queue("shop-orders")


def sends(broker: marq.Broker) -> None:
    broker.queue("shop-orders").send(b"x")


def receives(broker: marq.Broker) -> None:
    broker.queue("shop-orders").receive(wait="60s")


def delays(broker: marq.Broker) -> None:
    broker.queue("shop-orders").send(b"x", delay="1h")


def counts(broker: marq.Broker) -> None:
    broker.queue("shop-orders").stats()


def lists(broker: marq.Broker) -> None:
    broker.queue("shop-orders").dead_letters.list()


@pytest.mark.parametrize(
    ("lacks", "does", "said"),
    [
        ("READ on topic marq.catalog", opens, "READ on topic 'marq.catalog'"),
        ("WRITE on topic shop", sends, "WRITE on topic 'shop-orders'"),
        ("WRITE on topic marq.delayed", delays, "WRITE on topic 'marq.delayed'"),
        ("WRITE on topic marq.markers", receives, "WRITE on topic 'marq.markers'"),
        ("READ on topic shop", receives, "READ on the topic 'shop-orders'"),
        ("READ on group marq.shop", receives, "READ on the group of 'shop-orders'"),
        ("READ on topic marq.markers", lists, "READ on topic 'marq.markers'"),
        ("READ on topic marq.stats", counts, "READ on topic 'marq.stats'"),
    ],
)
def test_an_application_is_told_which_right_it_lacks(
    secured: Secured,
    operator: marq.Broker,
    lacks: str,
    does: Callable[[marq.Broker], None],
    said: str,
) -> None:
    operator.queue("shop-orders").send(b"x")
    single = [each for right in APP for each in right.singly()]
    assert lacks in map(str, single)
    # What is not to be read or written can still be seen: else it would be as if it were not there.
    secured.allow("app", *(one.described() if str(one) == lacks else one for one in single))

    with pytest.raises(ConfigError) as refused, connected(secured, "app") as app:
        does(app)

    assert said in str(refused.value)
