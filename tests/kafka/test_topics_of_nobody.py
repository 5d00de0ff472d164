"""A cluster that makes topics of itself when they are asked for, as Kafka does by default."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import marq
from marq.core import names
from marq.embedded import broker, config, files, layout
from marq.embedded.jvm import jars, java
from marq.errors import ConfigError
from marq.kafka.backend import Kafka
from marq.kafka.client import probe
from tests.e2e.kafka_process import eventually

pytestmark = [pytest.mark.java, pytest.mark.kafka]


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setitem(config._LAPTOP, "auto.create.topics.enable", "true")
    home = files.home(tmp_path)
    made = layout.settle(home, layout.wanted(1, None), random.Random())
    files.make_private(home.logs)
    kit = broker.Kit(java.find(), jars.resolve(), home, made)
    broker.format_storage(kit)
    process = broker.BrokerChild(kit, made.nodes[0]).spawn()
    try:
        assert eventually(lambda: probe.takes_messages(made.bootstrap_servers, 1), 60)
        yield f"kafka://{made.bootstrap_servers}"
    finally:
        process.kill()
        process.wait()


def test_what_is_sent_to_a_deleted_queue_is_refused_and_makes_no_topic(url: str) -> None:
    with marq.connect(url) as one, marq.connect(url) as other:
        orders = one.queue("orders")
        other.delete_queue("orders")

        with pytest.raises(ConfigError, match="was deleted"):
            orders.send(b"to nobody")
        with pytest.raises(ConfigError, match="was deleted"):
            orders.receive()

        assert isinstance(one.backend, Kafka)
        letters = names.dead_letters("orders")
        assert {"orders", letters} & set(one.backend.admin.topics()) == {letters}
