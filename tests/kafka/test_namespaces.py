"""Teams on one cluster: a namespace's logs are its own, and what is written there stays there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import marq
from marq.core import names
from marq.core.markers import codec
from marq.core.markers.marker import Action, Claim, ClaimId, Held, Hold, Progress, Source, Step
from marq.core.messages import header
from marq.core.messages.header import Meta
from marq.core.messages.stored import Outgoing
from marq.core.names import Space
from marq.errors import ConfigError
from marq.kafka.backend import Kafka
from tests.e2e.kafka_fixtures import Connect, broker, connect, new_name

__all__ = ["broker", "connect"]
pytestmark = [pytest.mark.java, pytest.mark.kafka]

Pair = tuple[marq.Broker, marq.Broker]


@pytest.fixture
def teams(connect: Connect) -> Pair:
    """One without a namespace, one with."""
    return connect(), connect(namespace="pay")


def kafka_of(broker: marq.Broker) -> Kafka:
    assert isinstance(broker.backend, Kafka)
    return broker.backend


def test_all_that_is_marq_s_own_has_the_namespace_s_name(teams: Pair) -> None:
    one, other = teams
    queue = other.queue(new_name())
    queue.send(b"1")
    (delivery,) = queue.receive(wait="30s")
    delivery.ack().result(30)

    backend = kafka_of(other)
    topics = set(backend.admin.topics())
    assert topics >= {"marq-pay.catalog", "marq-pay.markers", "marq-pay.delayed", "marq-pay.stats"}
    assert backend.admin.committed(f"marq-pay.{queue.name}", queue.name, 4) != [-1001] * 4
    assert kafka_of(one).admin.committed(f"marq.{queue.name}", queue.name, 4) == [-1001] * 4
    assert queue.name in other.queues()
    assert queue.name not in one.queues()


def test_a_queue_of_another_namespace_is_refused_by_name(teams: Pair) -> None:
    one, other = teams
    mine, theirs = one.queue(new_name()), other.queue(new_name())

    with pytest.raises(ConfigError, match=r"belongs to namespace 'pay'.*namespace='pay'"):
        one.queue(theirs.name)
    with pytest.raises(ConfigError, match="belongs to no namespace"):
        other.queue(mine.name)

    theirs.send(b"1")
    assert [each.payload for each in theirs.receive(wait="30s")] == [b"1"]


def test_a_group_of_another_namespace_s_queue_is_not_there(teams: Pair) -> None:
    one, other = teams
    theirs = other.queue(new_name())
    group = other.group(theirs.name, "billing", max_members=2, members=["m1"])

    with pytest.raises(ConfigError, match="there is no group"):
        one.group(theirs.name, "billing")
    with pytest.raises(ConfigError, match="there is no queue"):
        one.group(theirs.name, "billing", max_members=2, members=["m1"])

    assert (theirs.name, "billing") not in one.groups()
    assert group.members() == ["m1"]


def test_a_queue_that_was_deleted_is_nobody_s(teams: Pair) -> None:
    one, other = teams
    name = new_name()
    other.queue(name)
    other.delete_queue(name)

    one.queue(name).send(b"1")

    assert [each.payload for each in one.queue(name).receive(wait="30s")] == [b"1"]


def test_markers_in_one_namespace_s_logs_say_nothing_of_another_s_messages(teams: Pair) -> None:
    """What one who may write to his own logs can forge: claims, ends, holds, parked messages."""
    one, other = teams
    theirs = other.queue(new_name(), partitions=1)
    for payload in (b"0", b"1", b"2"):
        theirs.send(payload)
    topic_id = kafka_of(other).admin.topic_id(theirs.name)
    assert topic_id is not None
    claim = ClaimId(666, 1)
    source = Source(topic_id, 0, theirs.name, "", 0)
    forged = (
        Claim(claim, source, 0, ((0, 3),), 11_000),
        Hold((Held(claim, 1, Action.BURY, reason="because"),)),
        Progress((Step(claim, 0b110),)),
    )
    backend = kafka_of(one)
    place = names.markers_partition(theirs.name, 0, backend.markers_partitions)
    for marker in forged:
        backend.sender.append("marq.markers", place, codec.encode(marker), 30)
    parked = header.join(Meta(queue=theirs.name, delay_ms=1), ())
    backend.sender.send(Outgoing("marq.delayed", 0, None, b"forged", parked)).result(30)

    got: set[bytes] = set()
    while len(got) < 3 and (some := theirs.receive(max=3, wait="60s")):
        got |= {each.payload for each in some}

    assert got == {b"0", b"1", b"2"}
    assert theirs.dead_letters.list() == []
    assert not kafka_of(other).reader.folded("marq-pay.delayed", 4)[0].parked.counts


@pytest.mark.parametrize("wrong", ["a.b", "a b", "x" * 41, "ü"])
def test_a_namespace_that_cannot_be_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match="namespace's name is made of"):
        marq.connect("kafka://127.0.0.1:9", namespace=wrong)


def test_the_names_of_the_default_namespace_are_what_they_were() -> None:
    space = Space()

    assert (space.catalog, *space.hold_logs, space.stats) == (
        *("marq.catalog", "marq.markers", "marq.delayed"),
        "marq.stats",
    )
    assert space.consumer_group("orders") == "marq.orders"
    assert space.tracker_id("marq.markers", 3) == "marq.tracker.marq.markers.3"


@pytest.mark.parametrize(
    ("is_log", "topic", "expected"),
    [
        (names.is_markers, "marq.markers", True),
        (names.is_markers, "marq-pay.markers", True),
        (names.is_markers, "marq-pay.delayed", False),
        (names.is_delayed, "marq-a-b.delayed", True),
        (names.is_delayed, "orders.delayed", False),
        (names.is_delayed, "xmarq.delayed", False),
    ],
)
def test_the_logs_of_every_namespace_are_known_as_such(
    is_log: Callable[[str], bool], topic: str, expected: bool
) -> None:
    assert is_log(topic) is expected
