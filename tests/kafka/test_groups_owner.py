"""What an owner may still commit, and when: on a real broker, without instances."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import TopicPartition

import marq
from marq.core.names import DEFAULT
from marq.groups.names import GroupNames, group_names
from marq.kafka.backend import Kafka
from marq.kafka.client.making import Producer
from marq.kafka.groups.clients import GroupClients
from marq.kafka.groups.note import Note
from marq.kafka.groups.owner import Owner
from marq.kafka.groups.performer import fence
from marq.kafka.groups.tenure import Tenure
from marq.kafka.groups.transactions import ProducerLost
from tests.e2e.kafka_fixtures import NewQueue

pytestmark = [pytest.mark.java, pytest.mark.kafka]


class Stage:
    """A group's topic and offsets, and owners as instances have them."""

    def __init__(self, broker: marq.Broker, queue: str) -> None:
        assert isinstance(broker.backend, Kafka)
        broker.group(queue, "g", max_members=2, members=["a", "b"])
        self.names: GroupNames = group_names(queue, "g", DEFAULT)
        self.cluster: GroupClients = broker.backend.groups()._manager.cluster
        self.offsets: Any = self.cluster.offsets(self.names)
        self._admin = broker.backend.admin
        self.owners: list[Owner] = []

    def owner(self, member: str) -> Owner:
        producer: Producer = self.cluster.transactional(self.names.producer(member))
        producer.init_transactions(30)
        group = self.offsets.consumer_group_metadata
        self.owners.append(Owner(f"claim-{member}", producer, group, self.names.base, 5.0))
        return self.owners[-1]

    def tenure(self, owner: Owner, partition: int, start: int) -> Tenure:
        tenure = Tenure(owner, partition, 1, start, Note())
        owner.tenures[partition] = tenure
        return tenure

    def committed(self, partition: int) -> tuple[int, str]:
        place = TopicPartition(self.names.base, partition)
        [found] = self.offsets.committed([place], timeout=30)
        return found.offset, found.metadata or ""

    def close(self) -> None:
        for owner in self.owners:
            owner.discard()
        self.offsets.close()


@pytest.fixture
def stage(broker: marq.Broker, new_queue: NewQueue) -> Iterator[Stage]:
    found = Stage(broker, new_queue().name)
    yield found
    found.close()


def test_whoever_is_fenced_commits_nothing_and_says_so_once(stage: Stage) -> None:
    owner = stage.owner("a")
    owner.recommit({0: (5, "")})
    told: list[str] = []
    owner.lost = lambda: told.append("lost")

    assert fence(stage.cluster, stage.names, "a")

    for _ in range(2):
        with pytest.raises(ProducerLost):
            owner.recommit({0: (9, "")})
    assert stage.committed(0)[0] == 5
    assert told == ["lost"]


def test_a_partition_that_was_let_go_is_committed_no_more(stage: Stage) -> None:
    first, second = stage.owner("a"), stage.owner("b")
    tenure = stage.tenure(first, 0, 5)
    first.recommit({0: (5, "")})
    first.release(frozenset({0}))
    second.recommit({0: (50, "")})

    with pytest.raises(ProducerLost):
        first.note(tenure, Note(3, 1).text)
    first.flush()

    assert stage.committed(0)[0] == 50
    assert not first.tenures


def test_a_note_stands_beside_the_offset_until_the_next_ack(stage: Stage) -> None:
    owner = stage.owner("a")
    tenure = stage.tenure(owner, 1, 5)

    owner.note(tenure, Note(3, 2).text)
    assert stage.committed(1) == (5, "taken:3 begun:2")

    tenure.watermark = 6
    owner.flush()
    assert stage.committed(1) == (6, "")
