"""Messages the tracker cannot read back or write: dead letters that say so, never another message,
and never a partition that stands still."""

from __future__ import annotations

import string
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

import marq
from marq.core import names
from marq.kafka.backend import Kafka
from tests.e2e.kafka_process import eventually
from tests.e2e.tracker_scene import Scene, soak

pytestmark = [
    pytest.mark.java,
    pytest.mark.kafka,
    pytest.mark.e2e,
    pytest.mark.timeout(600),
]

LIMIT = 10_000
"""Bytes a topic takes at most in these tests."""
FRAME = 61 + 12
"""What a record without headers takes beside its payload, at most."""


def delete_records(scene: Scene, sent: marq.Sent) -> None:
    """Delete the log up to that message, as an operator might."""
    kafka = scene.broker.backend
    assert isinstance(kafka, Kafka)
    kafka.admin.trim({(sent.topic, sent.partition): sent.offset + 1})


def limit(scene: Scene, topic: str, size: int) -> None:
    """Let the topic take no larger batches."""
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": scene.servers})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def letters(queue: marq.Queue[Any], number: int) -> dict[str, marq.DeadLetter]:
    """The dead letters, once there are so many."""
    assert eventually(lambda: len(queue.dead_letters.list()) >= number, 100), "no dead letter"
    return {letter.message_id: letter for letter in queue.dead_letters.list()}


def test_a_message_whose_record_was_deleted_while_it_was_open_is_a_dead_letter_that_says_so(
    scene: Scene,
) -> None:
    queue = scene.queue(lease="2s", partitions=1)
    first, *others = queue.send_many([b"first", *[b"x"] * 3])
    (taken,) = queue.receive(1, "20s")
    assert taken.message_id == first.message_id
    delete_records(scene, first)

    scene.crew.start(queue.name)

    found = letters(queue, 1)
    assert set(found) == {first.message_id}
    assert "the payload is gone" in found[first.message_id].reason
    assert [past.attempt for past in found[first.message_id].history] == [1]
    ledger = scene.settled(queue)
    assert scene.acked() == {sent.message_id for sent in others} == ledger.sent


def test_what_was_open_in_a_deleted_queue_never_becomes_a_message_of_the_new_one(
    scene: Scene,
) -> None:
    queue = scene.queue(lease="2s", partitions=1)
    old = scene.send(queue, 3)
    victim = scene.crew.start(queue.name, work_s=60.0)
    victim.wait_until(lambda: victim.ids("begun") == old)
    victim.kill()
    scene.broker.delete_queue(queue.name)
    again = scene.broker.queue(queue.name, partitions=1, retention="1h")
    new = {sent.message_id for sent in again.send_many([b"new"] * 3)}  # at the old ones' offsets

    worker = scene.crew.start(again.name)

    worker.wait_until(lambda: worker.ids("acked") == new)
    found = letters(again, 3)
    assert set(found) == old  # the same addresses, and so the same ids
    assert {letter.reason for letter in found.values()} == {
        "the payload is gone: the record or its topic was deleted before it was acked"
    }
    assert {letter.raw for letter in found.values()} == {b""}
    assert {copies for _, copies in scene.ledger(again).copies} == {0}
    assert len(worker.heard("begun")) == 3


def test_a_delayed_message_whose_queue_was_deleted_is_a_dead_letter_with_its_payload(
    scene: Scene,
) -> None:
    queue = scene.queue(partitions=1)
    sent = queue.send(b"late", headers={"colour": "red"}, delay="13s")
    scene.broker.delete_queue(queue.name)
    kafka = scene.broker.backend
    assert isinstance(kafka, Kafka)

    buried = eventually(lambda: kafka.admin.end(names.dead_letters(queue.name), 0) > 0, 60)

    assert buried, "nothing became of it"
    again = scene.broker.queue(queue.name)
    letter = letters(again, 1)[sent.message_id]
    assert letter.reason == "the queue was deleted before the message was due"
    assert (letter.raw, letter.headers["colour"], letter.attempts) == (b"late", b"red", 0)
    assert again.receive(1, "1s") == []


def test_a_message_too_large_for_its_copy_is_a_dead_letter_that_says_so(scene: Scene) -> None:
    queue = scene.queue(lease="2s", partitions=1)
    limit(scene, queue.name, LIMIT)
    payload = Random(1).randbytes(LIMIT - FRAME)
    large, small = queue.send(payload), queue.send(b"small")
    scene.leave(queue, 2)

    scene.settled(queue, lambda: scene.pull(queue, 1.0))

    found = letters(queue, 1)
    assert set(found) == {large.message_id}
    assert found[large.message_id].payload == payload
    assert "too large" in found[large.message_id].reason
    assert scene.pulled == {small.message_id}


def fails(queue: marq.Queue[Any]) -> Callable[[bytes], None]:
    chance = Random(2)

    @queue.handler()
    def fail(payload: bytes) -> None:
        raise ValueError("".join(chance.choices(string.printable[:62], k=300)))

    return fail


def test_a_message_too_large_for_its_history_is_a_dead_letter_without_it(scene: Scene) -> None:
    queue = scene.queue(lease="2s", max_attempts=6, backoff=("0s", "0s"))
    # Six reasons of 300 are too much even compressed, one is not.
    payload = Random(1).randbytes(LIMIT - 1_200)
    limit(scene, names.dead_letters(queue.name), LIMIT)
    sent = queue.send(payload)
    fails(queue)

    with scene.broker.worker(queue):
        found = letters(queue, 1)

    assert set(found) == {sent.message_id}
    letter = found[sent.message_id]
    assert (letter.payload, letter.attempts, list(letter.history)) == (payload, 6, [])
    assert "max attempts (6) reached: ValueError" in letter.reason


def test_a_redrive_that_is_refused_half_way_loses_no_dead_letter(scene: Scene) -> None:
    queue = scene.queue(partitions=1)
    sent = queue.send_many([b"a", b"x" * LIMIT, b"b"])
    for _ in sent:
        (delivery,) = queue.receive(1, "60s")
        delivery.reject("no good")
    letters(queue, 3)
    limit(scene, queue.name, LIMIT)

    with pytest.raises(marq.QueueError):
        queue.dead_letters.redrive()

    redriven: set[str] = set()
    left: set[str] = set()

    def all_there() -> bool:
        redriven.update(delivery.message_id for delivery in queue.receive(3, "1s"))
        # What was taken for it and not sent is back among them when its lease is over.
        left.update(letter.message_id for letter in queue.dead_letters.list())
        return redriven | left == {each.message_id for each in sent}

    assert eventually(all_there)
    assert sent[1].message_id in left
    assert not redriven & left


@soak
def test_a_message_no_topic_takes_is_kept_and_holds_nobody_up(scene: Scene) -> None:
    queue = scene.queue(lease="2s", partitions=1)
    limit(scene, queue.name, LIMIT)
    limit(scene, names.dead_letters(queue.name), LIMIT)
    payload = Random(1).randbytes(LIMIT - FRAME)
    large, small = queue.send(payload), queue.send(b"small")
    scene.leave(queue, 2)

    def small_is_acked() -> bool:
        scene.pull(queue, 1.0)
        return scene.pulled == {small.message_id}

    assert eventually(small_is_acked, 100), "it waits for the one that cannot be written"
    assert queue.dead_letters.list() == []

    limit(scene, names.dead_letters(queue.name), 2 * LIMIT)

    found = letters(queue, 1)  # within a minute it is tried again
    assert set(found) == {large.message_id}
    assert found[large.message_id].payload == payload
    scene.settled(queue)
