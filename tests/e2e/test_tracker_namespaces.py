"""Two namespaces on one cluster, each with a tracker of its own: both keep time."""

from __future__ import annotations

import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import marq
from tests.e2e.kafka_fixtures import new_name
from tests.e2e.kafka_process import eventually
from tests.tracker_process import TrackerProcess

if TYPE_CHECKING:
    from tests.conftest import Tracked

pytestmark = [pytest.mark.java, pytest.mark.kafka, pytest.mark.e2e]

PATIENCE_S = 60.0


def test_each_namespace_s_tracker_keeps_its_time(tracked: Tracked, tmp_path: Path) -> None:
    servers, pay = tracked.bootstrap_servers, {"MARQ_NAMESPACE": "pay"}
    with (
        TrackerProcess(servers, tmp_path / "checkpoint", pay) as theirs,
        marq.connect(f"kafka://{servers}") as one,
        marq.connect(f"kafka://{servers}", namespace="pay") as other,
    ):
        theirs.wait_until_ready()
        queues = [each.queue(new_name(), lease="1s", max_attempts=2) for each in (one, other)]
        for queue in queues:
            queue.send("later", delay="11s")
            queue.send("deadly")

        for queue in queues:
            assert taken(queue, 3) == {"deadly": [1, 2], "later": [1]}, theirs.tail()
            assert eventually(partial(has_a_letter, queue), PATIENCE_S), theirs.tail()
            assert queue.dead_letters.redrive() == 1
            assert taken(queue, 1) == {"deadly": [1]}


def has_a_letter(queue: marq.Queue[Any]) -> bool:
    return queue.stats().dead == 1


def taken(queue: marq.Queue[Any], deliveries: int) -> dict[str, list[int]]:
    """The attempts of so many deliveries by payload; what is deadly is left to lapse."""
    found: dict[str, list[int]] = defaultdict(list)
    until = time.monotonic() + PATIENCE_S
    while sum(map(len, found.values())) < deliveries and time.monotonic() < until:
        for delivery in queue.receive(max=10, wait="1s"):
            found[delivery.payload].append(delivery.attempt)
            if delivery.payload != "deadly":
                delivery.ack()
    return dict(found)
