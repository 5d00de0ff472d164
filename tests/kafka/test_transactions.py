"""The tracker's transactional producer on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from marq import embedded
from marq.core.messages.stored import Outgoing
from marq.kafka.backend import Kafka
from marq.kafka.client import config
from marq.kafka.client.transactions import ProducerFenced, Transactions
from marq.kafka.cluster import topics
from tests.e2e.kafka_fixtures import new_name

pytestmark = [pytest.mark.java, pytest.mark.kafka]


@pytest.fixture
def topic(backend: Kafka) -> str:
    """A topic that takes 10,000 bytes at once."""
    name = new_name()
    backend.admin.create([(name, 1, {**topics.LOGGED, "max.message.bytes": "10000"})], 1)
    backend.admin.wait_until_led(name)
    return name


@pytest.fixture
def transactions(kafka: embedded.Runtime) -> Iterator[Transactions]:
    found = Transactions(config.producer(kafka.bootstrap_servers, {}, 0), new_name())
    yield found
    found.close()


_CHANCE = Random(1)


def record(topic: str, size: int) -> Outgoing:
    """One that cannot be made smaller."""
    return Outgoing(topic, 0, None, _CHANCE.randbytes(size), ())


def sizes(backend: Kafka, topic: str) -> list[int]:
    """Of what is in the topic."""
    (end,) = backend.admin.ends(topic, 1)
    return [len(message.value()) for message in backend.reader.read(topic, {0: (0, end)})]


def test_what_is_too_large_is_refused_and_nothing_with_it_is_written(
    backend: Kafka, topic: str, transactions: Transactions
) -> None:
    other = new_name()
    backend.admin.create([(other, 1, topics.LOGGED)], 1)
    backend.admin.wait_until_led(other)

    assert transactions.write([record(other, 5), record(topic, 20_000)]) == {1}

    assert sizes(backend, topic) == sizes(backend, other) == []


def test_after_a_refusal_it_goes_on(backend: Kafka, topic: str, transactions: Transactions) -> None:
    for size in (7, 8):
        assert transactions.write([record(topic, 20_000)]) == {0}
        assert transactions.write([record(topic, size)]) == set()

    assert sizes(backend, topic) == [7, 8]


def test_one_that_is_too_large_takes_its_batch_with_it(
    backend: Kafka, topic: str, transactions: Transactions
) -> None:
    refused = transactions.write([record(topic, 9_000) for _ in range(3)])

    assert refused and transactions.write([record(topic, 9_000)]) == set()
    assert sizes(backend, topic) == [9_000]


def test_what_is_too_large_is_written_compressed_where_that_makes_it_small_enough(
    backend: Kafka, topic: str, transactions: Transactions
) -> None:
    large = Outgoing(topic, 0, None, b"x" * 20_000, (("h", b"y" * 20_000),))

    assert transactions.write([large, record(topic, 5)]) == set()

    assert sizes(backend, topic) == [20_000, 5]


def test_whoever_opens_it_again_fences_the_one_before(
    kafka: embedded.Runtime, backend: Kafka, topic: str
) -> None:
    name, settings = new_name(), config.producer(kafka.bootstrap_servers, {}, 0)
    first = Transactions(settings, name)
    second = Transactions(settings, name)

    with pytest.raises(ProducerFenced):
        first.write([record(topic, 5)])

    assert second.write([record(topic, 6)]) == set()
    assert sizes(backend, topic) == [6]
    first.close()
    second.close()
