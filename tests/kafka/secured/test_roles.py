"""Each role does its whole work with its least rights, and is told which one it lacks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

import marq
from marq.cli import app
from marq.core.messages.stored import Outgoing
from marq.errors import QueueError
from marq.kafka.backend import Kafka
from tests.e2e.kafka_process import eventually
from tests.kafka.secured import roles
from tests.kafka.secured.cluster import Secured, in_environment

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
    return marq.connect(f"kafka://{secured.servers}", kafka=settings, connect_timeout="60s")


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
        with pytest.raises(QueueError, match=r"it takes READ on topic 'marq\.delayed'"):
            work.stats()  # what a tracker would have counted is looked for in the logs
        letters = work.dead_letters.list()
        got: list[Any] = []

        operator.group("shop-work", "billing", max_members=1, members=["m"])
        with app.group("shop-work", "billing").consume("m", lambda each: take(each, got)):
            work.send(b"2", key="k")
            assert eventually(lambda: b"2" in got, 60)

    assert (delivery.message_id, again.attempt) == (sent.message_id, 2)
    assert letters == []
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


def works(broker: marq.Broker) -> None:
    queue = broker.queue("shop-orders")
    queue.handler()(lambda payload: None)
    broker.run(queue)


def delays(broker: marq.Broker) -> None:
    broker.queue("shop-orders").send(b"x", delay="1h")


def counts(broker: marq.Broker) -> None:
    broker.queue("shop-orders").stats()


def lists(broker: marq.Broker) -> None:
    broker.queue("shop-orders").dead_letters.list()


def redrives(broker: marq.Broker) -> None:
    broker.queue("shop-orders").dead_letters.redrive()


def looks(broker: marq.Broker) -> None:
    broker.group("shop-orders", "billing").info()


def consumes(broker: marq.Broker) -> None:
    with broker.group("shop-orders", "billing").consume("m", gives_up) as instance:
        assert eventually(lambda: instance.ended, 60)  # what ended it is raised by leaving


def gives_up(delivery: Any) -> None:
    delivery.term("no")


SEEN, UNSEEN = True, False
"""Whether what may not be read or written can still be seen."""
LACKS = [
    ("READ on topic marq.catalog", SEEN, opens, "READ on topic 'marq.catalog'"),
    ("READ on topic marq.catalog", UNSEEN, opens, "DESCRIBE on topic 'marq.catalog'"),
    ("READ on topic marq.stats", SEEN, counts, "READ on topic 'marq.stats'"),
    ("READ on topic marq.stats", UNSEEN, opens, "DESCRIBE on topic 'marq.stats'"),
    ("WRITE on topic marq.delayed", SEEN, delays, "WRITE on topic 'marq.delayed'"),
    ("WRITE on topic marq.delayed", UNSEEN, opens, "DESCRIBE on topic 'marq.delayed'"),
    ("WRITE on topic shop", SEEN, sends, "WRITE on topic 'shop-orders'"),
    ("WRITE on topic marq.markers", SEEN, receives, "WRITE on topic 'marq.markers'"),
    ("WRITE on topic marq.markers", SEEN, works, "WRITE on topic 'marq.markers'"),
    ("READ on topic marq.markers", SEEN, lists, "READ on topic 'marq.markers'"),
    ("READ on topic dlq.shop", SEEN, lists, "READ on topic 'dlq.shop-orders'"),
    ("WRITE on topic shop", SEEN, redrives, "WRITE on topic 'shop-orders'"),
    ("READ on topic shop", SEEN, receives, "READ on topic 'shop-orders'"),
    ("READ on topic shop", SEEN, works, "READ on topic 'shop-orders'"),
    ("READ on group marq.shop", UNSEEN, receives, "READ on group 'marq.shop-orders'"),
    ("READ on group marq.shop", UNSEEN, works, "READ on group 'marq.shop-orders'"),
    ("READ on topic shop", SEEN, looks, "READ on topic 'shop-orders.group.billing.control'"),
    ("READ on topic shop", SEEN, consumes, "READ on topic 'shop-orders.group.billing.control'"),
    ("WRITE on topic shop", SEEN, consumes, "WRITE on topic 'shop-orders.group.billing"),
    ("WRITE on topic dlq.shop", SEEN, consumes, "WRITE on topic 'dlq.shop-orders'"),
    ("READ on group marq.group.shop", UNSEEN, consumes, "marq.group.shop-orders.billing"),
    ("WRITE on transactional_id marq.group.shop", UNSEEN, consumes, "transactional id"),
]
SOON_S = 20.0
"""Within 5 s on a quiet machine, which is not what this may be; and no time-out is as short."""


@pytest.fixture
def letters(operator: marq.Broker) -> None:
    """Something for everyone to do: a message, and one that was given up by hand. Anew for each:
    who may not redrive a letter to its end has claimed it, and nobody else sees it meanwhile."""
    queue = operator.queue("shop-orders")
    queue.send(b"x", key="k")
    letter = Outgoing("dlq.shop-orders", 0, b"k", b"given up", ())
    assert isinstance(operator.backend, Kafka)
    operator.backend.sender.send(letter).result(30)


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize(("lacks", "seen", "does", "said"), LACKS)
def test_an_application_is_told_at_once_which_right_it_lacks(
    secured: Secured,
    lacks: str,
    seen: bool,
    does: Callable[[marq.Broker], None],
    said: str,
) -> None:
    single = [each for right in APP for each in right.singly()]
    assert lacks in map(str, single)
    left = [each for each in single if str(each) != lacks]
    lacking = [each.described() for each in single if seen and str(each) == lacks]
    secured.allow("app", *left, *lacking)
    began = time.monotonic()

    with pytest.raises(QueueError) as refused, connected(secured, "app") as app:
        does(app)

    assert said in str(refused.value)
    assert time.monotonic() - began < SOON_S


def test_a_queue_whose_topic_may_not_be_deleted_stays_as_it_is(
    secured: Secured, operator: marq.Broker
) -> None:
    operator.queue("shop-stays", partitions=1).send(b"1")
    single = [each for right in roles.operator() for each in right.singly()]
    secured.allow("stranger", *(each for each in single if str(each) != "DELETE on topic *"))

    with (
        connected(secured, "stranger") as stranger,
        pytest.raises(QueueError, match="it takes DELETE on topic 'shop-stays'"),
    ):
        stranger.delete_queue("shop-stays")

    assert "shop-stays" in operator.queues()


def test_every_right_of_an_application_is_missed() -> None:
    assert {str(each) for right in APP for each in right.singly()} == {each[0] for each in LACKS}


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize(
    ("lacks", "command", "said"),
    [
        ("WRITE on topic shop", ["send", "shop-orders", "x"], "WRITE on topic 'shop-orders'"),
        (
            "WRITE on topic marq.markers",
            ["receive", "shop-orders", "--wait", "60s"],
            "WRITE on topic 'marq.markers'",
        ),
        ("READ on topic dlq.shop", ["dlq", "ls", "shop-orders"], "READ on topic 'dlq.shop-orders'"),
        ("READ on topic marq.catalog", ["queue", "ls"], "READ on topic 'marq.catalog'"),
    ],
)
def test_a_command_that_lacks_a_right_says_which_and_fails(
    secured: Secured, lacks: str, command: list[str], said: str
) -> None:
    single = [each for right in APP for each in right.singly()]
    lacking = [each.described() for each in single if str(each) == lacks]
    secured.allow("app", *(each for each in single if str(each) != lacks), *lacking)
    url = ["--url", f"kafka://{secured.servers}"]

    done = CliRunner().invoke(app, [*command, *url], env=in_environment(secured.login("app")))

    assert (done.exit_code, said in done.output) == (2, True), done.output
