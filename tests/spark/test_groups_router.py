"""The router on Spark copies a queue to an ordered group, once and in order."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import marq
from marq.groups.keys import partition_of
from marq.groups.names import group_names
from marq.kafka.backend import Kafka
from marq.kafka.groups.delivery import as_stored
from tests.e2e.kafka_fixtures import NewQueue, broker, connect, new_queue
from tests.e2e.kafka_process import eventually

__all__ = ["broker", "connect", "new_queue"]
pytestmark = [pytest.mark.java, pytest.mark.kafka, pytest.mark.timeout(600)]

PARTITIONS = 4


@contextmanager
def running(kafka: Kafka, queue: str, checkpoint: Path) -> Iterator[None]:
    from marq.spark import group_router

    stopping = threading.Event()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            group_router.run(kafka, group_names(queue, "g"), checkpoint, "local[2]", stopping)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield
    stopping.set()
    thread.join()
    assert not failed


def copies(kafka: Kafka, queue: str) -> dict[int, list[tuple[bytes, str]]]:
    """By partition, key and origin of what was copied, in order."""
    topic = f"{queue}.group.g"
    starts, ends = kafka.admin.starts(topic, PARTITIONS), kafka.admin.ends(topic, PARTITIONS)
    found: dict[int, list[tuple[bytes, str]]] = defaultdict(list)
    spans = {number: (starts[number], ends[number]) for number in range(PARTITIONS)}
    for message in kafka.reader.read(topic, spans):
        stored = as_stored(message)
        found[message.partition()].append((message.key(), stored.message_id()))
    return found


def test_a_queue_is_copied_once_and_in_order_even_when_the_checkpoint_is_lost(
    broker: marq.Broker, new_queue: NewQueue, tmp_path: Path
) -> None:
    queue = new_queue(partitions=3)
    kafka: Any = broker.backend
    broker.group(queue.name, "g", max_members=PARTITIONS, router="spark")
    sent = [queue.send(str(n), key=f"k{n % 10}") for n in range(200)]

    def count() -> int:
        return sum(map(len, copies(kafka, queue.name).values()))

    with running(kafka, queue.name, tmp_path / "first"):
        assert eventually(lambda: count() == 200, 300)
    sent += [queue.send(str(n), key=f"k{n % 10}") for n in range(200, 300)]
    with running(kafka, queue.name, tmp_path / "second"):
        assert eventually(lambda: count() >= 300, 300)

    found = copies(kafka, queue.name)
    by_key: dict[bytes, list[str]] = defaultdict(list)
    for partition, records in found.items():
        for key, origin in records:
            assert partition == partition_of(key, PARTITIONS)
            by_key[key].append(origin)
    wanted: dict[bytes, list[str]] = defaultdict(list)
    for n, each in enumerate(sent):
        wanted[f"k{n % 10}".encode()].append(each.message_id)
    assert by_key == wanted
