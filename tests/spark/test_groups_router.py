"""The router on Spark copies a queue to an ordered group, once and in order."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import marq
from marq import embedded
from marq.embedded import tether
from marq.groups.keys import partition_of
from marq.kafka.backend import Kafka
from marq.kafka.groups.delivery import as_stored
from tests.e2e.kafka_fixtures import NewQueue, broker, connect, new_queue
from tests.e2e.kafka_process import eventually

__all__ = ["broker", "connect", "new_queue"]
pytestmark = [pytest.mark.java, pytest.mark.kafka, pytest.mark.timeout(600)]

PARTITIONS = 4


@contextmanager
def running(servers: str, queue: str, checkpoint: Path) -> Iterator[None]:
    """`marq group route`, stopped in the end: Spark has a process of its own."""
    command = ["group", "route", queue, "g", "--checkpoint", str(checkpoint)]
    process = subprocess.Popen(
        [
            *(sys.executable, tether.__file__, str(os.getpid()), sys.executable, "-m", "marq.cli"),
            *(*command, "--url", f"kafka://{servers}"),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    yield
    process.terminate()
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 0, said


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
    kafka: embedded.Runtime, broker: marq.Broker, new_queue: NewQueue, tmp_path: Path
) -> None:
    queue = new_queue(partitions=3)
    backend: Any = broker.backend
    servers = kafka.bootstrap_servers
    broker.group(queue.name, "g", max_members=PARTITIONS, router="spark")
    sent = [queue.send(str(n), key=f"k{n % 10}") for n in range(200)]

    def count() -> int:
        return sum(map(len, copies(backend, queue.name).values()))

    with running(servers, queue.name, tmp_path / "first"):
        assert eventually(lambda: count() == 200, 300)
    sent += [queue.send(str(n), key=f"k{n % 10}") for n in range(200, 300)]
    with running(servers, queue.name, tmp_path / "second"):
        assert eventually(lambda: count() >= 300, 300)

    found = copies(backend, queue.name)
    by_key: dict[bytes, list[str]] = defaultdict(list)
    for partition, records in found.items():
        for key, origin in records:
            assert partition == partition_of(key, PARTITIONS)
            by_key[key].append(origin)
    wanted: dict[bytes, list[str]] = defaultdict(list)
    for n, each in enumerate(sent):
        wanted[f"k{n % 10}".encode()].append(each.message_id)
    assert by_key == wanted
