"""Headers whose names no text can be made of are told as such, however often they are asked for."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

import marq
from marq import embedded
from marq.kafka.client import config, record
from tests.e2e.kafka_fixtures import new_name
from tests.hostile.wire import Raw, Socket

pytestmark = [pytest.mark.java, pytest.mark.kafka]

LATIN, FINE = (b"gr\xf6\xdfe", b"1"), (b"x", b"y")
MANY = 200
"""Calls after which Python has made a loop fast: such a call is another one."""


@pytest.mark.parametrize("more", [(), (FINE,), (LATIN,)], ids=["alone", "first", "twice"])
def test_a_name_that_is_no_text_is_told_by_a_header_that_says_so(
    kafka: embedded.Runtime, more: tuple[tuple[bytes, bytes], ...]
) -> None:
    name = new_name()
    with marq.connect(f"kafka://{kafka.bootstrap_servers}") as broker:
        broker.queue(name, partitions=1)
    with Socket(kafka.bootstrap_servers) as socket:
        socket.produce(name, 0, [Raw(b"fine", None, (FINE,)) for _ in range(MANY)])
        socket.produce(name, 0, [Raw(b"odd", None, (LATIN, *more)) for _ in range(MANY)])
    consumer = Consumer(config.reader(kafka.bootstrap_servers, {}))
    consumer.assign([TopicPartition(name, 0, 0)])

    found: list[Any] = []
    while len(found) < 2 * MANY:
        found += consumer.consume(2 * MANY - len(found), 60)

    assert all(record.headers(each) == (("x", b"y"),) for each in found[:MANY])
    for _ in range(2):
        told = {name for each in found[MANY:] for name, _ in record.headers(each)}
        assert told == {record.UNREADABLE}
    consumer.close()
