"""The embedded broker as a Kafka client sees it."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from marq import embedded
from marq.kafka import probe

pytestmark = [pytest.mark.java, pytest.mark.kafka]


def test_a_probe_leaves_no_topic_behind(kafka: embedded.Runtime) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})

    assert probe.takes_messages(kafka.bootstrap_servers, brokers=1)

    assert probe.TOPIC not in admin.list_topics(timeout=10).topics


def test_a_cluster_with_fewer_brokers_than_expected_is_not_ready(kafka: embedded.Runtime) -> None:
    assert not probe.takes_messages(kafka.bootstrap_servers, brokers=3)
