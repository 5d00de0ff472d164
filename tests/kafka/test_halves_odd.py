"""Half messages that nobody should have written, and those whose queue, group or topic is gone."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer

import marq
from marq import embedded
from marq.core import names
from marq.core.fate import halves
from marq.core.markers.marker import Check, HalfAnswer, ParkedRef
from marq.core.messages import header
from marq.core.messages.header import NAME
from marq.core.messages.sending import Message
from marq.core.messages.terms import HalfTerms
from marq.kafka.backend import Kafka
from tests.e2e.kafka_fixtures import NewQueue
from tests.kafka.in_process_tracker import InProcessTracker

pytestmark = [pytest.mark.java, pytest.mark.kafka]


class Odd:
    """A log that strangers write to, with a tracker that runs when it is told to."""

    def __init__(self, kafka: embedded.Runtime, backend: Kafka) -> None:
        self.backend = backend
        self.tracker = InProcessTracker(kafka, backend)
        self._producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})

    def write(
        self, topic: str, key: bytes | None, value: bytes, *headers: tuple[str, bytes]
    ) -> None:
        self._producer.produce(topic, value, key, headers=list(headers))
        assert not self._producer.flush(30)

    def half(self, queue: str, group: str, made: int) -> None:
        """A half message without an owner."""
        terms = HalfTerms(group, "nobody", made, 200, 200, 15, 0)
        meta = halves.half_meta(queue, terms, Message(b""))
        self.write(names.DELAYED, None, b"odd", (NAME, header.encode(meta)))

    def seen(self, queue: str) -> list[Any]:
        found = self.backend.halves.seen()
        return [each for each in found if each.stored.meta().queue == queue]

    def run_until_asked(self, queue: str) -> None:
        assert self.tracker.run(lambda: any(each.asked for each in self.seen(queue)))


@pytest.fixture
def odd(kafka: embedded.Runtime, backend: Kafka) -> Iterator[Odd]:
    yield Odd(kafka, backend)


def made(backend: Kafka, queue: marq.Queue[Any]) -> int:
    return backend.catalog().made(queue.name)


def test_answers_about_delayed_messages_and_about_nothing_are_void(
    odd: Odd, new_queue: NewQueue
) -> None:
    orders = new_queue()
    sent = orders.send(b"1", delay="10m")
    assert sent.due is not None
    ref = ParkedRef(round(sent.due.timestamp() * 1_000), sent.offset)

    for verdict in Check:
        answer = HalfAnswer((ref, ParkedRef(5, 1 << 40)), verdict, 1)
        odd.backend.halves.answer(sent.partition, answer).result(30)

    assert odd.backend.counted(orders.name).delayed == 1
    assert orders.cancel(sent)


def test_a_half_of_a_group_that_nobody_knows_waits_for_an_operator(
    odd: Odd, new_queue: NewQueue
) -> None:
    orders = new_queue()
    odd.half(orders.name, f"unheard-of-{uuid4().hex[:8]}", made(odd.backend, orders))

    odd.run_until_asked(orders.name)
    [seen] = odd.seen(orders.name)
    odd.backend.halves.answer(seen.stored.partition, HalfAnswer((seen.ref,), Check.COMMIT)).result(
        30
    )
    assert odd.tracker.run(lambda: not odd.seen(orders.name))

    [delivery] = orders.receive(wait="30s")
    assert (delivery.raw, delivery.message_id) == (b"odd", seen.stored.address)


def test_without_the_topic_of_requests_it_is_asked_later_and_nothing_else_waits(
    odd: Odd, new_queue: NewQueue
) -> None:
    orders = new_queue()
    group = orders.producer_group(orders.name, check=lambda half_id, payload: marq.COMMIT)
    group.close()
    odd.backend.admin.delete(odd.backend.space.checks(group.name))
    odd.half(orders.name, group.name, made(odd.backend, orders))

    odd.run_until_asked(orders.name)

    again = orders.producer_group(orders.name, check=lambda half_id, payload: marq.COMMIT)
    assert odd.tracker.run(lambda: not odd.seen(orders.name))
    assert [delivery.raw for delivery in orders.receive(wait="30s")] == [b"odd"]
    again.close()


def test_of_a_queue_that_is_gone_with_its_dead_letters_it_is_dropped(
    odd: Odd, new_queue: NewQueue, broker: marq.Broker
) -> None:
    orders = new_queue()
    odd.half(orders.name, "shop", made(odd.backend, orders))
    broker.delete_queue(orders.name)
    odd.backend.admin.delete(names.dead_letters(orders.name))

    assert odd.tracker.run(lambda: not odd.seen(orders.name))


def test_a_half_for_a_queue_that_was_made_again_is_a_dead_letter(
    odd: Odd, new_queue: NewQueue
) -> None:
    orders = new_queue()
    odd.half(orders.name, "shop", made(odd.backend, orders) + 1)

    assert odd.tracker.run(lambda: not odd.seen(orders.name))

    [letter] = orders.dead_letters.list()
    assert "deleted" in letter.reason


def test_a_member_passes_over_what_is_no_request(odd: Odd, new_queue: NewQueue) -> None:
    orders = new_queue()
    asked, heard = [], threading.Event()

    def check(half_id: str, payload: bytes) -> str:
        asked.append(payload)
        heard.set()
        return "commit"

    group = orders.producer_group(orders.name, check=check)
    topic = odd.backend.space.checks(group.name)
    for headers in ((), ((NAME, b"\x01"),), ((NAME, b"\xff\xff"),), (("other", b"1"),)):
        odd.write(topic, b"key", b"garbage", *headers)
    odd.half(orders.name, group.name, made(odd.backend, orders))
    odd.run_until_asked(orders.name)

    assert heard.wait(60)
    assert odd.tracker.run(lambda: not odd.seen(orders.name))
    assert asked == [b"odd"]


def test_a_payload_that_is_too_large_is_refused_before_it_is_sent(
    odd: Odd, new_queue: NewQueue
) -> None:
    orders = new_queue()
    group = orders.producer_group(orders.name, check=lambda half_id, payload: marq.COMMIT)

    with pytest.raises(marq.PayloadError, match="too large"):
        group.half(b"x" * 1_000_000)

    assert odd.seen(orders.name) == []


def test_an_older_tracker_is_to_be_upgraded_first(kafka: embedded.Runtime) -> None:
    space = f"old{uuid4().hex[:8]}"
    with marq.connect(f"kafka://{kafka.bootstrap_servers}", namespace=space) as broker:
        orders = broker.queue(f"q{space}")
        sign = json.dumps({"at_ms": broker.backend.now_ms(), "features": ["catalog-groups"]})
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        producer.produce(broker.backend.space.stats, sign.encode(), b"", partition=0)
        assert not producer.flush(30)

        with pytest.raises(marq.ConfigError, match="upgrade the tracker first"):
            orders.producer_group("shop", check=lambda half_id, payload: marq.COMMIT)
