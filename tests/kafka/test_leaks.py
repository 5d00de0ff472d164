"""What connecting and closing leaves behind: nothing, however often."""

from __future__ import annotations

import os
import time

import psutil  # type: ignore[import-untyped]
import pytest

import marq
from marq import embedded
from tests.e2e.kafka_fixtures import new_name

pytestmark = [pytest.mark.java, pytest.mark.kafka]

WARM_UP = 2
CYCLES = int(os.environ.get("CYCLES", "6"))
SLACK, SLACK_MB = 8, 20.0
"""What may be on its way out: connections close a moment after their clients."""


def cycle(servers: str, name: str) -> None:
    with marq.connect(f"kafka://{servers}") as broker:
        queue = broker.queue(name, partitions=1)
        queue.send(b"x")
        while not (found := queue.receive(5, "20s")):
            pass
        for delivery in found:
            delivery.ack()
        queue.stats()


def used() -> tuple[int, int, float]:
    """Threads (librdkafka's own, too), descriptors, megabytes."""
    process = psutil.Process()
    return process.num_threads(), process.num_fds(), process.memory_info().rss / 1_048_576


@pytest.mark.timeout(900)
def test_connecting_and_closing_leaves_nothing_behind(kafka: embedded.Runtime) -> None:
    name = new_name()
    for _ in range(WARM_UP):
        cycle(kafka.bootstrap_servers, name)
    threads, descriptors, megabytes = used()

    for _ in range(CYCLES):
        cycle(kafka.bootstrap_servers, name)

    until = time.monotonic() + 60
    while (left := used())[0] > threads + SLACK and time.monotonic() < until:
        time.sleep(0.05)
    assert left[0] <= threads + SLACK
    assert left[1] <= descriptors + SLACK
    assert left[2] <= megabytes + SLACK_MB + CYCLES / 10
