"""Sources whose topics were deleted are forgotten, on a real broker."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

import marq
from marq import embedded
from marq.core import names
from marq.core.catalog.definitions import Catalog
from marq.core.fold import batch
from marq.core.fold.batch import Batch
from marq.core.fold.state import State
from marq.core.names import DEFAULT
from marq.kafka.backend import Kafka
from marq.kafka.tracker.act.perform import Act
from marq.kafka.tracker.act.tools import Tools
from tests.e2e.kafka_fixtures import NewQueue, new_name

pytestmark = [pytest.mark.java, pytest.mark.kafka]


def only_restates(state: State) -> Batch:
    """A batch that trims, and brings back nothing of other tests' queues."""
    state.restated_ms = 0
    return replace(batch.conclude(state, state.next_offset, caught_up=True), overdue=[], due=[])


def test_act_lets_the_fold_forget_a_topic_that_is_gone(
    kafka: embedded.Runtime, broker: marq.Broker, backend: Kafka, new_queue: NewQueue
) -> None:
    queue = new_queue(partitions=1)
    queue.send(b"x")
    (delivery,) = queue.receive(1, "10s")
    delivery.ack().result(10)
    topic_id = backend.admin.topic_id(queue.name)
    assert topic_id is not None
    broker.delete_queue(queue.name)
    place = (names.MARKERS, names.markers_partition(queue.name, 0, backend.markers_partitions))
    known = backend.reader.folded_one(*place)
    assert topic_id in {stream[0] for stream in known.claimed}

    tools = Tools(kafka.bootstrap_servers, {}, DEFAULT)
    report = Act(place, only_restates(known), tools, Catalog(), lambda: 0.0, {topic_id}).perform()

    now = backend.reader.folded_one(*place)
    assert report.trim_to
    assert topic_id not in {stream[0] for stream in now.claimed}
    assert now.claims.keys() == known.claims.keys()


def test_topics_are_told_from_missing_ones_in_one_question(
    backend: Kafka, new_queue: NewQueue
) -> None:
    queue, missing = new_queue(partitions=3), new_name()

    found = backend.admin.describe_all([queue.name, missing])

    assert found == {queue.name: (backend.admin.topic_id(queue.name), 3), missing: None}
    assert backend.admin.describe_all([]) == {}
