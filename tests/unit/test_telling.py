"""What librdkafka says is logged: what happened, and what to do, and not ten times a second."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError

from marq.kafka.client import config, telling
from marq.kafka.client.making import Consumer, Producer
from marq.kafka.client.telling import Connections, Lines, Teller

NOWHERE = "127.0.0.1:9"
GONE, ALL_GONE = KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN


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
    assert "Connection refused" in vars(record)["error"]


def _wait_for(event: str, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """Until librdkafka has tried often enough to say more than that, had it been let."""
    silent = 0
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
    while silent < 3 and time.monotonic() < deadline:
        if isinstance(client, Producer):
            client.poll(0.05)
        else:
            client.consume(1, 0.05)
        silent = max((count for _, count in telling._teller._quiet.values()), default=0)
    if isinstance(client, Producer):
        client.purge()
    else:
        client.close()
    assert event in caplog.messages


def test_each_event_is_told_once_a_minute_and_how_often_it_was_not(
    teller: Teller, caplog: pytest.LogCaptureFixture
) -> None:
    left, odd = KafkaError(KafkaError._MAX_POLL_EXCEEDED), KafkaError(KafkaError._BAD_MSG)
    one, other = heard_by("a:1", teller), heard_by("b:1", teller)
    for now[0] in (100.0, 101.0, 159.0):
        one(left)
        one(odd)
    other(left)
    now[0] = 160.0
    one(left)

    assert caplog.messages == [
        "group left for want of polls",
        "Kafka client error",
        "group left for want of polls",
        "group left for want of polls",
    ]
    assert vars(caplog.records[-1])["not_told"] == "2"


def heard_by(servers: str, teller: Teller) -> Callable[[KafkaError], None]:
    """The error callback of a client."""
    return Connections(servers, teller, clock=lambda: now[0]).heard


@pytest.mark.parametrize("codes", [[GONE], [GONE, ALL_GONE]])
def test_connections_that_fail_now_and_then_are_no_news(
    codes: list[int], teller: Teller, caplog: pytest.LogCaptureFixture
) -> None:
    heard = heard_by("localhost:9092", teller)

    for now[0] in (200.0, 200.1, 206.0, 207.9, 300.0):
        for code in codes:
            heard(KafkaError(code))

    assert caplog.messages == []


def test_connections_that_go_on_failing_are_told_by_whether_any_broker_is_left(
    teller: Teller, caplog: pytest.LogCaptureFixture
) -> None:
    some, all_of_them = heard_by("a:1", teller), heard_by("b:1", teller)
    for now[0] in (400.0, 401.0, 402.1, 403.0):
        some(KafkaError(GONE))
        all_of_them(KafkaError(GONE))
        if now[0] == 400.0:
            all_of_them(KafkaError(ALL_GONE))

    assert caplog.messages == ["broker connection failed", "no broker reachable"]


def test_lines_of_its_log_are_told_by_what_happened(
    teller: Teller, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    lines = Lines(teller)

    for facility in ("FAIL", "FATAL", "CONFWARN", "SESSTMOUT", "REQTMOUT", "ODD"):
        lines.log(logging.WARNING, "%s [%s] %s", facility, "marq#producer-1", "it is so")

    told = [each for each in caplog.records if each.levelno >= logging.INFO]
    assert [each.message for each in told] == [
        "group session timed out",
        "broker requests timed out",
        "librdkafka says",
    ]
    assert all(vars(each)["error"] == "it is so" and vars(each)["to_do"] for each in told)
