"""Ordered groups when a thread dies, nobody answers, or strangers write to their logs."""

from __future__ import annotations

import gc
import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

import marq
from marq import embedded
from marq.groups import records, routing
from marq.groups.records import HoldingRecord
from marq.kafka.groups import copying, router
from marq.kafka.groups.fetch import Fetcher
from marq.kafka.groups.hand import Hand
from marq.kafka.groups.instance import KafkaInstance
from marq.kafka.groups.owner import Owner
from marq.kafka.groups.router import Router
from tests.e2e.kafka_fixtures import Connect, NewQueue
from tests.e2e.kafka_process import eventually
from tests.kafka.test_groups import PATIENCE_S, Consume, Seen, consume, is_done, new_group

__all__ = ["consume"]
pytestmark = [pytest.mark.java, pytest.mark.kafka]

CYCLES = 4


@pytest.mark.parametrize(
    ("where", "method"),
    [
        (Router, "_copy"),
        (Fetcher, "_fetch"),
        (Hand, "_serve_all"),
        (Owner, "flush"),
        (KafkaInstance, "_turn"),
    ],
)
def test_a_thread_that_dies_ends_the_instance_with_its_error(
    broker: marq.Broker,
    new_queue: NewQueue,
    consume: Consume,
    monkeypatch: pytest.MonkeyPatch,
    where: type,
    method: str,
) -> None:
    queue = new_queue()
    group = new_group(broker, queue)
    seen = Seen()
    instance = consume(group, "m1", seen)
    queue.send("before", key="k")
    seen.wait(1)
    original = getattr(where, method)

    def die(*args: Any) -> Any:
        if threading.current_thread().name.startswith("marq-group"):
            raise RuntimeError("injected")
        return original(*args)

    monkeypatch.setattr(where, method, die)
    queue.send("after", key="k")

    with pytest.raises((RuntimeError, marq.QueueError), match="injected"):
        assert instance.wait(PATIENCE_S)
    monkeypatch.setattr(where, method, original)
    if where is Router:  # shared by all instances of the process: the next one has a new one
        consume(group, "m1", seen)
        assert eventually(lambda: "after" in seen.payloads)


def test_leaving_the_block_of_an_instance_that_failed_raises_its_error(
    broker: marq.Broker, new_queue: NewQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = new_group(broker, new_queue())

    def die(fetcher: Fetcher, consumer: object) -> None:
        raise RuntimeError("injected")

    monkeypatch.setattr(Fetcher, "_fetch", die)

    with pytest.raises(RuntimeError, match="injected"), group.consume("m1", Seen()) as instance:
        assert instance.wait_until(lambda: instance.ended, PATIENCE_S)


def timed_out() -> KafkaException:
    return KafkaException(KafkaError(KafkaError._TIMED_OUT, "Failed to get committed offsets"))


def test_copying_goes_on_when_nobody_answers_for_a_while(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router, "_RETRY_S", 0.0)
    asked: list[int] = []
    copied = copying.copied

    def slowly(*args: Any) -> int | None:
        asked.append(1)
        if len(asked) <= 2:
            raise timed_out()
        return copied(*args)

    monkeypatch.setattr(router, "copied", slowly)
    queue = new_queue(partitions=1)
    seen = Seen()
    consume(new_group(broker, queue), "m1", seen)
    queue.send("x", key="k")

    seen.wait(1)

    assert len(asked) == 3


def test_copying_that_is_refused_ends_the_instance_with_an_error(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume, monkeypatch: pytest.MonkeyPatch
) -> None:
    denied = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED, "Group authorization failed")

    def refuse(*args: Any) -> int | None:
        raise KafkaException(denied)

    monkeypatch.setattr(router, "copied", refuse)
    instance = consume(new_group(broker, new_queue()), "m1", Seen())

    with pytest.raises(marq.QueueError, match=r"nothing is copied to the group 'g'.*rights"):
        assert instance.wait(PATIENCE_S)


def test_deleting_the_queue_ends_an_instance_and_no_thread_dies_of_it(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume, caplog: pytest.LogCaptureFixture
) -> None:
    queue = new_queue()
    seen = Seen()
    instance = consume(new_group(broker, queue), "m1", seen)
    queue.send("x", key="k")
    seen.wait(1)

    broker.delete_queue(queue.name)

    assert instance.wait(PATIENCE_S)
    assert "thread died" not in caplog.text


def test_a_message_that_cannot_be_made_sense_of_is_copied_as_it_is(
    broker: marq.Broker,
    new_queue: NewQueue,
    consume: Consume,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = new_queue(partitions=1)
    group = new_group(broker, queue)
    original = routing.routed

    def routed(record: Any, *more: Any) -> Any:
        if record.value == b"odd":
            raise OverflowError("odd")
        return original(record, *more)

    monkeypatch.setattr(routing, "routed", routed)
    seen = Seen()
    with caplog.at_level(logging.ERROR, "marq.groups"):
        consume(group, "m1", seen)
        queue.send_many([b"1", b"odd", b"2"], key="k")
        seen.wait(3)

    assert [each.raw for each in seen.deliveries] == [b"1", b"odd", b"2"]
    assert "copied as it is" in caplog.text


@pytest.mark.parametrize("fits", [True, False])
def test_a_message_that_was_smaller_on_its_way_does_not_stop_copying(
    kafka: embedded.Runtime,
    broker: marq.Broker,
    new_queue: NewQueue,
    consume: Consume,
    monkeypatch: pytest.MonkeyPatch,
    fits: bool,
) -> None:
    if not fits:
        monkeypatch.setattr(copying, "LARGEST", 1_000_000)
    queue = new_queue(partitions=1)
    seen = Seen()
    own = {"compression.type": "gzip", "message.max.bytes": 10_000_000}
    stranger = Producer({"bootstrap.servers": kafka.bootstrap_servers, **own})
    stranger.produce(queue.name, bytes(3_000_000), b"k", 0)
    assert stranger.flush(PATIENCE_S) == 0
    queue.send(b"after", key="k")

    consume(new_group(broker, queue), "m1", seen)
    seen.wait(2 if fits else 1)

    letters = [letter.reason for letter in queue.dead_letters.list()]
    assert [len(each.raw) for each in seen.deliveries] == ([3_000_000, 5] if fits else [5])
    assert len(letters) == (0 if fits else 1)
    assert all("too large for" in reason for reason in letters)


ODD: list[dict[str, Any]] = [
    {"value": None},
    {"value": b"\xff" * 100},
    {"value": b"[" * 50_000 + b"]" * 50_000},
    {"value": b'{"record":"config","id":"x","version":2,"config":{"max_members":1000000000000}}'},
    {"value": records.encode(HoldingRecord("c", 1, "\x00", "", (-1, 9), 1))},
    {"value": b"x" * 900_000, "key": b"\xff"},
    {"value": b"", "headers": [("marq", b"\x01\x04")]},
]  # fmt: skip


def test_what_strangers_write_to_a_group_s_logs_stops_nobody(
    kafka: embedded.Runtime,
    connect: Connect,
    broker: marq.Broker,
    new_queue: NewQueue,
    consume: Consume,
) -> None:
    queue = new_queue(partitions=1)
    group = new_group(broker, queue, max_members=1)
    seen = Seen()
    consume(group, "m1", seen)
    base = f"{queue.name}.group.g"
    stranger = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for odd in ODD:
        for topic in (f"{base}.control", f"{base}.leases", base):
            stranger.produce(topic, partition=0, **{"key": b"k", **odd})
    stranger.produce(base, b"payload", b"k", 0, headers=[("marq", b"\x01\x04\xff\xff\x03")])
    assert stranger.flush(PATIENCE_S) == 0
    queue.send("good", key="k")

    assert eventually(lambda: "good" in [each.raw.decode("latin-1") for each in seen.deliveries])
    assert len(seen.deliveries) == len(ODD) + 1, "every odd one is delivered, but what is a copy"
    assert eventually(lambda: is_done(group))
    # Whoever reads it from its start comes to the same answer.
    other = connect().group(queue.name, "g")
    assert other.add("m2") == ["m1", "m2"]
    assert set(other.active()) == {"m1"}


def test_connecting_and_closing_again_and_again_leaves_nothing(
    kafka: embedded.Runtime, broker: marq.Broker, new_queue: NewQueue
) -> None:
    queue = new_queue(partitions=1)
    new_group(broker, queue, max_members=1)

    def cycle() -> None:
        with marq.connect(f"kafka://{kafka.bootstrap_servers}") as another:
            instance = another.group(queue.name, "g").consume("m1", Seen())
            assert instance.wait_until_active(PATIENCE_S)

    cycle()
    gc.collect()
    before = open_now()
    for _ in range(CYCLES):
        cycle()

    def is_as_before() -> bool:
        """Nothing more than before for each cycle; a connection more or less is chance."""
        gc.collect()
        return all(now < then + CYCLES for now, then in zip(open_now(), before, strict=True))

    assert eventually(is_as_before), (before, open_now(), threading.enumerate())


def open_now() -> tuple[int, int]:
    """Threads, librdkafka's too, and open files of this process."""
    tasks = len(list(Path("/proc/self/task").iterdir()))
    return tasks, len(list(Path("/proc/self/fd").iterdir()))
