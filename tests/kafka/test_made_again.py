"""A queue made again under its name, where the deletion of the last one was cut short."""

from __future__ import annotations

import pytest

import marq
from marq.kafka.backend import Kafka
from tests.e2e.kafka_fixtures import NewQueue

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
