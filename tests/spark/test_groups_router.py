"""The router on Spark copies a queue to an ordered group, once and in order."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import marq
from marq import embedded
from marq.embedded import tether
from marq.groups.keys import partition_of
from marq.groups.names import group_names
from marq.kafka.backend import Kafka
from marq.kafka.client.record import stored
from marq.kafka.groups.copying import Copier
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
        record = stored(message)
        found[message.partition()].append((message.key(), record.message_id()))
    return found


def test_a_queue_is_copied_once_and_in_order_by_whoever_copies(
    kafka: embedded.Runtime, broker: marq.Broker, new_queue: NewQueue, tmp_path: Path
) -> None:
    queue = new_queue(partitions=3)
    backend: Any = broker.backend
    group = broker.group(queue.name, "g", max_members=PARTITIONS, router="spark")
    sent = [queue.send(str(n), key=f"k{n % 10}") for n in range(100)]
    # Without a checkpoint the query starts with the first record: these are copied already.
    copy_all(backend, queue.name, group)
    sent += [queue.send(str(n), key=f"k{n % 10}") for n in range(100, 200)]

    with running(kafka.bootstrap_servers, queue.name, tmp_path):
        assert eventually(lambda: count(backend, queue.name) >= 200, 300)

    by_key: dict[bytes, list[str]] = defaultdict(list)
    for partition, records in copies(backend, queue.name).items():
        for key, origin in records:
            assert partition == partition_of(key, PARTITIONS)
            by_key[key].append(origin)
    wanted: dict[bytes, list[str]] = defaultdict(list)
    for n, each in enumerate(sent):
        wanted[f"k{n % 10}".encode()].append(each.message_id)
    assert by_key == wanted


def count(kafka: Kafka, queue: str) -> int:
    return sum(map(len, copies(kafka, queue).values()))


def copy_all(kafka: Kafka, queue: str, group: marq.Group) -> None:
    """As a member's process does it."""
    names = group_names(queue, "g", kafka.space)
    cluster = kafka.groups()._manager.cluster
    ends = kafka.admin.ends(queue, 3)
    with closing(cluster.copy_offsets(names)) as offsets:
        for number, end in enumerate(ends):
            group_of = offsets.consumer_group_metadata
            copier = Copier(cluster, names, group.config, number, group_of)
            records = [stored(it) for it in kafka.reader.read(queue, {number: (0, end)})]
            assert copier.copy(records, 0, {}) == end
            assert copier.copy(records, end, {}) == end
            copier.close()
