"""Queues deleted, made again and altered by several at once, and by some who die half-way."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import marq
from marq.core.catalog.definitions import QueueDefinition
from marq.errors import ConfigError
from marq.kafka.backend import Kafka
from tests.e2e.kafka_fixtures import Connect, NewQueue
from tests.kafka.lifetimes import take
from tests.kafka.trimming_world import create_again

pytestmark = [pytest.mark.java, pytest.mark.kafka]


class Died(Exception):
    """The process did."""


def test_it_inherits_no_messages_and_no_offsets(
    broker: marq.Broker, backend: Kafka, new_queue: NewQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = new_queue(partitions=1).name
    broker.queue(name).send_many([b"old"] * 3)
    before = backend.admin.topic_id(name)

    def die(*topics: str) -> None:
        raise Died

    with monkeypatch.context() as dying:
        dying.setattr(backend.admin, "delete", die)
        with pytest.raises(Died):
            broker.delete_queue(name)
    assert backend.admin.topic_id(name) == before
    again = broker.queue(name, partitions=2)
    again.send(b"new")

    assert backend.admin.topic_id(name) != before
    assert [each.payload for each in again.receive(9, "10s")] == [b"new"]


def test_a_purge_voids_nothing_of_a_topic_that_others_made_again(
    broker: marq.Broker, backend: Kafka, new_queue: NewQueue
) -> None:
    queue = new_queue(partitions=1)
    queue.send_many([b"old"] * 3)
    queue.purge()
    queue.send(b"first")
    assert [each.payload for each in queue.receive(9, "10s")] == [b"first"]
    backend.close_pump(queue.name)

    create_again(backend.admin, queue.name)
    queue.send(b"new")
    queue.flush()

    again = broker.queue(queue.name)
    assert [each.payload for each in again.receive(9, "10s")] == [b"new"]


def test_a_topic_that_someone_else_made_since_is_kept_with_what_is_in_it(
    broker: marq.Broker, backend: Kafka, new_queue: NewQueue
) -> None:
    name = new_queue(partitions=1).name
    other = new_queue(partitions=1).name
    broker.delete_queue(name)
    settings = backend.admin.settings(other)
    wanted = ("cleanup.policy", "retention.ms", "retention.bytes", "message.timestamp.type")
    backend.admin.create([(name, 1, {each: settings[each] for each in wanted})], 1)
    backend.admin.wait_until_led(name)
    backend.send_bytes(name, b"a foreign one's").result(10)

    again = broker.queue(name, partitions=1)

    assert [each.payload for each in again.receive(1, "10s")] == [b"a foreign one's"]


def test_one_that_another_process_makes_while_it_is_being_deleted_keeps_its_messages(
    broker: marq.Broker,
    backend: Kafka,
    connect: Connect,
    new_queue: NewQueue,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = new_queue(partitions=1).name
    other = connect()

    def leave(queue: str) -> None:  # which takes a while
        other.queue(queue, partitions=1).send_many([b"new"] * 3)

    monkeypatch.setattr(backend, "close_pump", leave)
    broker.delete_queue(name)

    assert len(take(other.queue(name), 3)) == 3


def meanwhile(
    backend: Kafka, others: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others do between reading the catalog and changing it, once."""
    change, left = backend.change, [others]

    def changed(name: str, definition: QueueDefinition | None, version: int) -> bool:
        if left:
            left.pop()()
        return change(name, definition, version)

    monkeypatch.setattr(backend, "change", changed)


def test_of_two_who_alter_it_at_once_both_do(
    broker: marq.Broker,
    backend: Kafka,
    connect: Connect,
    new_queue: NewQueue,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = new_queue(partitions=1).name
    other = connect().queue(name)
    meanwhile(backend, lambda: other.update(max_attempts=77), monkeypatch)

    broker.queue(name).update(lease="1m")

    found = other.definition
    assert (found.max_attempts, found.lease_ms) == (77, 60_000)


def test_one_that_is_deleted_while_it_is_altered_is_not_made_again(
    broker: marq.Broker,
    backend: Kafka,
    connect: Connect,
    new_queue: NewQueue,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue, other = new_queue(partitions=1), connect()
    meanwhile(backend, lambda: other.delete_queue(queue.name), monkeypatch)

    with pytest.raises(ConfigError, match="was deleted"):
        queue.pause()
    assert other.backend.catalog().queue(queue.name) is None


def test_of_two_who_delete_it_at_once_neither_deletes_the_one_made_after(
    broker: marq.Broker,
    backend: Kafka,
    connect: Connect,
    new_queue: NewQueue,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, other = new_queue(partitions=1).name, connect()

    def make_again() -> None:
        other.delete_queue(name)
        other.queue(name, partitions=1).send(b"new")

    meanwhile(backend, make_again, monkeypatch)
    broker.delete_queue(name)

    assert [each.payload for each in other.queue(name).receive(9, "10s")] == [b"new"]
