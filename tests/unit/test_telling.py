"""What librdkafka says is logged: what happened, and what to do, and not ten times a second."""

from __future__ import annotations

import logging
import time

import pytest
from confluent_kafka import KafkaError

from marq.kafka.client import config, telling
from marq.kafka.client.making import Consumer, Producer
from marq.kafka.client.telling import Lines, Teller

NOWHERE = "127.0.0.1:9"


@pytest.fixture
def teller() -> Teller:
    return Teller(clock=lambda: now[0])


now = [0.0]


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_a_cluster_that_is_away_is_told_once_with_what_to_do(
    kind: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling._teller, "_quiet", {})

    _wait_for("no broker reachable", kind, caplog)

    [record] = [each for each in caplog.records if each.message == "no broker reachable"]
    assert (record.name, record.levelname) == ("marq.kafka.client", "WARNING")
    assert vars(record)["servers"] == NOWHERE
    assert "check that the cluster runs" in vars(record)["to_do"]
    [refused] = [each for each in caplog.records if each.message == "broker connection failed"]
    assert "Connection refused" in vars(refused)["error"]


def _wait_for(event: str, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """Until librdkafka has tried often enough to say more than that, had it been let."""
    told = 0
    client = (
        Producer(config.producer(NOWHERE, {}, 1.0))
        if kind == "producer"
        else Consumer(config.group_consumer(NOWHERE, "marq.orders", {}))
    )
    if isinstance(client, Producer):
        client.produce("orders", b"")
    else:
        client.subscribe(["orders"])
    deadline = time.monotonic() + 60
    while told < 3 and time.monotonic() < deadline:
        if isinstance(client, Producer):
            client.poll(0.05)
        else:
            client.consume(1, 0.05)
        told = max((count for _, count in telling._teller._quiet.values()), default=0)
    if isinstance(client, Producer):
        client.purge()
    else:
        client.close()
    assert event in caplog.messages


def test_each_event_is_told_once_a_minute_and_how_often_it_was_not(
    teller: Teller, caplog: pytest.LogCaptureFixture
) -> None:
    gone, odd = KafkaError(KafkaError._ALL_BROKERS_DOWN), KafkaError(KafkaError._BAD_MSG)
    for now[0] in (0.0, 1.0, 59.0):
        telling.error(gone, "a:1", teller)
        telling.error(odd, "a:1", teller)
    telling.error(gone, "b:1", teller)
    now[0] = 60.0
    telling.error(gone, "a:1", teller)

    assert caplog.messages == [
        "no broker reachable",
        "Kafka client error",
        "no broker reachable",
        "no broker reachable",
    ]
    assert vars(caplog.records[-1])["not_told"] == "2"


def test_lines_of_its_log_are_told_by_what_happened(
    teller: Teller, caplog: pytest.LogCaptureFixture
) -> None:
    lines = Lines(teller)

    for facility in ("FAIL", "FATAL", "CONFWARN", "SESSTMOUT", "REQTMOUT", "ODD"):
        lines.log(logging.WARNING, "%s [%s] %s", facility, "marq#producer-1", "it is so")

    told = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert [each.message for each in told] == [
        "group session timed out",
        "broker requests timed out",
        "librdkafka warning",
    ]
    assert all(vars(each)["error"] == "it is so" and vars(each)["to_do"] for each in told)
