"""Bad input and bad surroundings: a clear error each, and nothing lost."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import marq
from marq import embedded
from marq.kafka.backend import Kafka
from marq.kafka.cluster import topics
from tests.e2e.kafka_fixtures import Connect, NewQueue, new_name
from tests.e2e.kafka_oracle import Oracle
from tests.e2e.kafka_process import eventually

pytestmark = [pytest.mark.java, pytest.mark.kafka]


def test_a_payload_of_five_megabytes_is_refused_and_the_rest_goes_on(new_queue: NewQueue) -> None:
    queue = new_queue()

    with pytest.raises(marq.PayloadError, match="too large"):
        queue.send(b"x" * 5_000_000)

    queue.send(b"small")
    (delivery,) = queue.receive(1, "20s")
    assert delivery.payload == b"small"
    delivery.ack().result(10)


def test_messages_close_to_the_largest_are_given_back_and_come_again(
    connect: Connect, oracle: Oracle
) -> None:
    first, second = connect(), connect()
    name = new_name()
    queue = first.queue(name, partitions=1)
    queue.send_many([b"x" * 990_000] * 20)
    queue.receive(1, "20s")[0].ack()
    queue.receive(1, "20s")[0].give_back().result(10)

    first.close()
    other, count = second.queue(name), 0
    while count < 19:
        (delivery,) = other.receive(1, "20s")
        delivery.ack().result(10)
        count += 1

    assert not oracle.look(name).unfinished


def test_a_message_too_large_for_this_client_keeps_no_other_from_being_given_back(
    connect: Connect,
) -> None:
    others = connect(kafka={"message.max.bytes": 2_000_000})
    queue = others.queue(new_name(), partitions=1)
    for payload in (b"a", b"x" * 1_030_000, b"b"):
        queue.send(payload, delay="8s")
    ours = connect()
    ours.queue(queue.name).receive(1)
    assert isinstance(ours.backend, Kafka)
    _, inbox = ours.backend.pump(queue.name)
    assert eventually(lambda: len(inbox.room.later) == 3)

    ours.close()

    found: list[marq.Delivery[Any]] = []
    while len(found) < 2:
        found += queue.receive(2, "20s")
    assert sorted(each.payload for each in found) == [b"a", b"b"]
    assert queue.receive(1, "1s") == []


@pytest.mark.parametrize("wrong", ["retention.ms", "message.timestamp.type"])
def test_a_topic_of_someone_else_s_does_not_become_a_queue(
    kafka: embedded.Runtime, broker: marq.Broker, wrong: str
) -> None:
    name, theirs = new_name(), {"retention.ms": "1000", "message.timestamp.type": "CreateTime"}
    settings = {**topics.LOGGED, wrong: theirs[wrong]}
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_topics([NewTopic(name, 4, 1, config=settings)])[name].result(30)

    with pytest.raises(
        marq.ConfigError, match=f"is not a queue's .*{wrong}={topics.LOGGED[wrong]}"
    ):
        broker.queue(name)

    assert f"dlq.{name}" not in admin.list_topics(timeout=30).topics


def test_a_topic_that_is_set_up_as_a_queue_s_becomes_one(
    kafka: embedded.Runtime, broker: marq.Broker
) -> None:
    name = new_name()
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_topics([NewTopic(name, 4, 1, config=topics.LOGGED)])[name].result(30)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(name, b"written before")
    producer.flush(30)

    (delivery,) = broker.queue(name).receive(1, "20s")

    assert delivery.payload == b"written before"
    delivery.ack().result(10)


def test_a_broker_that_is_not_there_is_an_error_within_the_timeout() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        began = time.monotonic()

        with pytest.raises(marq.NotConnected, match=f"no broker answers at 127.0.0.1:{port}"):
            marq.connect(f"kafka://127.0.0.1:{port}", connect_timeout="2s")

        assert time.monotonic() - began < 40


def test_a_broker_that_takes_no_credentials_is_an_error_within_the_timeout(
    kafka: embedded.Runtime,
) -> None:
    credentials = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "nobody",
        "sasl.password": "nothing",
    }
    began = time.monotonic()

    with pytest.raises((marq.NotConnected, marq.ConfigError), match=kafka.bootstrap_servers):
        marq.connect(f"kafka://{kafka.bootstrap_servers}", connect_timeout="3s", kafka=credentials)

    assert time.monotonic() - began < 45


def test_a_queue_deleted_under_a_running_worker_ends_it_with_a_clear_error(
    connect: Connect,
) -> None:
    running, other = connect(), connect()
    queue = running.queue(new_name())
    handled: list[bytes] = []

    @queue.handler()
    def handle(payload: bytes) -> None:
        handled.append(payload)

    queue.send(b"1")
    worker = running.worker(queue)
    worker.start()
    assert eventually(lambda: handled == [b"1"])

    other.delete_queue(queue.name)

    with pytest.raises(marq.ConfigError, match="deleted"):
        worker.wait()
    worker.stop()


def test_a_queue_deleted_and_created_again_under_a_consumer_loses_nothing(
    connect: Connect, oracle: Oracle
) -> None:
    running, other = connect(), connect()
    name = new_name()
    queue = running.queue(name, partitions=1)
    queue.send_many([b"old"] * 10)
    for delivery in queue.receive(10, "20s"):
        delivery.ack()
    queue.flush("10s")

    other.delete_queue(name)
    again = other.queue(name, partitions=1)
    sent = {each.message_id for each in again.send_many([b"new"] * 20)}

    taken = patient(queue, 20)
    found = oracle.look(name)
    assert found.sent == sent
    assert not found.lost
    for delivery in taken:
        delivery.ack()
    running.queue(name).flush("10s")
    assert eventually(lambda: oracle.look(name).acked == sent or not taken)
    assert not oracle.look(name).lost


def patient(queue: marq.Queue[Any], number: int) -> list[marq.Delivery[Any]]:
    """So many messages; an error that says the queue was deleted is an answer too."""
    found: list[marq.Delivery[Any]] = []
    until = time.monotonic() + 60
    try:
        while len(found) < number and time.monotonic() < until:
            found += queue.receive(number - len(found), "2s")
    except marq.QueueError as error:
        assert "deleted" in str(error)
        return []
    return found


def test_a_worker_whose_offset_lies_below_the_log_s_start_goes_on_there(
    new_queue: NewQueue, kafka: embedded.Runtime
) -> None:
    queue = new_queue(partitions=1)
    queue.send_many([b"x"] * 10)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    trimmed = TopicPartition(queue.name, 0, 6)
    admin.delete_records([trimmed])[trimmed].result(30)

    found: list[marq.Delivery[Any]] = []
    while len(found) < 4:
        found += queue.receive(10, "20s")

    assert [delivery.message_id[-1] for delivery in found] == ["6", "7", "8", "9"]
    for delivery in found:
        delivery.ack().result(10)
