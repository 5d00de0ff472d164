"""Act on a real broker: when it is behind or refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

import marq
from marq import embedded
from marq.core import names
from marq.core.fold import batch
from marq.core.fold.batch import Batch
from marq.core.fold.overdue import Overdue
from marq.core.markers.marker import Tick
from marq.core.messages.stored import Outgoing
from marq.core.names import DEFAULT
from marq.kafka.backend import Kafka
from marq.kafka.client.transactions import Transactions
from marq.kafka.tracker.act import perform
from marq.kafka.tracker.act.perform import Act
from marq.kafka.tracker.act.report import Report
from marq.kafka.tracker.act.tools import Tools
from tests.e2e.kafka_fixtures import NewQueue
from tests.e2e.kafka_process import eventually

pytestmark = [pytest.mark.java, pytest.mark.kafka]


class Abandoned:
    """A message whose lease is over, and what a tracker would make of it."""

    def __init__(self, backend: Kafka, queue: marq.Queue[Any]) -> None:
        self.queue, self._backend = queue, backend
        queue.send(b"x")
        assert len(queue.receive(1, "60s")) == 1
        queue.flush()
        partitions = backend.markers_partitions
        self.place = (names.MARKERS, names.markers_partition(queue.name, 0, partitions))
        self.batch: Batch
        assert eventually(self.lapsed)

    def lapsed(self) -> bool:
        """Whether it is to be brought back, as of now."""
        self.tick()
        self.batch = self.concluded()
        return bool(self.batch.overdue)

    def tick(self) -> None:
        """One more record: time goes on, and the batch is no longer the end of the log."""
        markers = self._backend.markers
        heard: list[object] = []
        markers.write(self.place[1], Tick(), heard.append)
        assert eventually(lambda: bool(heard))

    def concluded(self) -> Batch:
        """A batch that ends here, without what other tests have left."""
        state = self._backend.reader.folded_one(*self.place)
        state.restated_ms = 0
        found = batch.conclude(state, state.next_offset, caught_up=True)
        ours = [each for each in found.overdue if self._is_ours(each)]
        return replace(found, overdue=ours, due=[])

    def _is_ours(self, event: Overdue) -> bool:
        return event.source.queue == self.queue.name

    def act(self, tools: Tools) -> Report:
        catalog = self._backend.catalog()
        return Act(self.place, self.batch, tools, catalog, lambda: 0.0).perform()


@pytest.fixture
def abandoned(backend: Kafka, new_queue: NewQueue) -> Abandoned:
    return Abandoned(backend, new_queue(partitions=1, lease="1s"))


@pytest.fixture
def tools(kafka: embedded.Runtime) -> Tools:
    return Tools(kafka.bootstrap_servers, {}, DEFAULT)


def test_a_tracker_that_is_behind_acts_when_it_has_caught_up(
    abandoned: Abandoned, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perform, "LONGEST_TAIL", 3)
    for _ in range(4):
        abandoned.tick()

    behind = abandoned.act(tools)
    abandoned.batch = abandoned.concluded()
    put_off = abandoned.batch.overdue
    assert eventually(abandoned.lapsed)
    caught_up = abandoned.act(tools)

    assert (behind.put_off, behind.trim_to, behind.fates) == (1, 0, {})
    assert put_off == []
    assert (caught_up.put_off, sum(caught_up.fates.values())) == (0, 1)
    assert caught_up.trim_to


class Refused(Tools):
    """Of whom no broker takes a restatement."""

    def open(self, topic: str, partition: int) -> Transactions:
        found = super().open(topic, partition)
        write = found.write

        def refuse(records: Sequence[Outgoing]) -> set[int]:
            is_restatement = len(records) == 1
            return {0} if is_restatement else write(records)

        found.write = refuse  # type: ignore[method-assign]
        return found


def test_nothing_is_trimmed_when_what_it_would_lose_could_not_be_written(
    kafka: embedded.Runtime, abandoned: Abandoned
) -> None:
    report = abandoned.act(Refused(kafka.bootstrap_servers, {}, DEFAULT))

    assert sum(report.fates.values()) == 1
    assert abandoned.batch.trim_to
    assert report.trim_to == 0


class EndsRefused(Tools):
    """Of whom no broker takes the ends of what was written, the first time."""

    refusals = 0

    def open(self, topic: str, partition: int) -> Transactions:
        found = super().open(topic, partition)
        write = found.write

        def refuse(records: Sequence[Outgoing]) -> set[int]:
            if self.refusals or len(records) == 1:
                return write(records)
            self.refusals += 1
            return {len(records) - 1}

        found.write = refuse  # type: ignore[method-assign]
        return found


def test_ends_that_no_broker_takes_cost_no_other_message(
    kafka: embedded.Runtime, abandoned: Abandoned
) -> None:
    tools = EndsRefused(kafka.bootstrap_servers, {}, DEFAULT)

    report = abandoned.act(tools)

    assert tools.refusals == 1
    assert sum(report.fates.values()) == 1
    assert not abandoned.concluded().overdue
