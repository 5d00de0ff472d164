"""The embedded broker as a Kafka client sees it."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from marq import embedded
from marq.kafka.client import probe

pytestmark = [pytest.mark.java, pytest.mark.kafka]


@pytest.fixture
def admin(kafka: embedded.Runtime) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.bootstrap_servers})


def topic_with_messages(admin: AdminClient, servers: str, name: str, count: int) -> None:
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(count):
        producer.produce(name, str(number).encode())
    assert producer.flush(30) == 0


def test_a_probe_leaves_no_topic_behind(kafka: embedded.Runtime, admin: AdminClient) -> None:
    assert probe.takes_messages(kafka.bootstrap_servers, brokers=1)

    assert probe.TOPIC not in admin.list_topics(timeout=10).topics


def test_a_cluster_with_fewer_brokers_than_expected_is_not_ready(kafka: embedded.Runtime) -> None:
    assert not probe.takes_messages(kafka.bootstrap_servers, brokers=3)


def test_nobody_else_can_look_into_the_runtime_s_directory(kafka: embedded.Runtime) -> None:
    folders = [kafka.directory, *(each for each in kafka.directory.iterdir() if each.is_dir())]

    assert {each.name for each in folders} >= {"broker-1", "logs", "tracker"}
    assert [each for each in folders if each.stat().st_mode & 0o077] == []


def test_topics_are_not_created_by_accident(kafka: embedded.Runtime, admin: AdminClient) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})

    found = producer.list_topics("embedded.typo", timeout=10).topics["embedded.typo"]

    assert found.error is not None
    assert "embedded.typo" not in admin.list_topics(timeout=10).topics


def seconds_to_first_message(servers: str, topic: str, group: str) -> float:
    settings = {"bootstrap.servers": servers, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "group.id": group, "session.timeout.ms": 6000})
    consumer.subscribe([topic])
    began = time.monotonic()
    (message,) = consumer.consume(1, timeout=60)
    took = time.monotonic() - began
    assert message.value() == b"0"
    consumer.close()
    return took


def test_a_group_gets_its_partitions_without_waiting_for_others(
    kafka: embedded.Runtime, admin: AdminClient
) -> None:
    servers = kafka.bootstrap_servers
    topic_with_messages(admin, servers, "embedded.group", 1)
    seconds_to_first_message(servers, "embedded.group", "first")  # makes the offsets topic

    # Of several, for a busy machine may be slow as well.
    took = min(seconds_to_first_message(servers, "embedded.group", f"g{n}") for n in range(3))

    assert took < 3, "Kafka's default waits 3 s for other members"


def test_share_groups_work(kafka: embedded.Runtime, admin: AdminClient) -> None:
    topic_with_messages(admin, kafka.bootstrap_servers, "embedded.share", 0)
    share = ShareConsumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "sharing"})
    share.subscribe(["embedded.share"])

    deadline = time.monotonic() + 30
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    values: list[bytes | None] = []
    while not values and time.monotonic() < deadline:
        producer.produce("embedded.share", b"new")  # a new share group starts at the log's end
        values += [message.value() for message in share.poll(1) if not message.error()]

    assert b"new" in values
    share.close()
    producer.flush(10)
