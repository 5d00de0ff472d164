"""Housekeeping on a real broker: what is trimmed, and what keeps it from nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

import marq
from marq import embedded
from marq.core import names
from marq.core.markers.marker import Claim, ClaimId, Progress, Source, Step
from marq.kafka.backend import Kafka
from marq.kafka.client import config
from marq.kafka.cluster import topics
from marq.kafka.cluster.admin import Admin
from marq.kafka.cluster.troubles import Troubles
from marq.kafka.tracker.heard import Heard
from marq.kafka.tracker.idle_groups import IdleGroups
from marq.kafka.tracker.queue_topics import KNOWN_S, QueueTopics
from tests.e2e.kafka_fixtures import Connect, NewQueue, new_name
from tests.e2e.kafka_process import eventually
from tests.kafka.house import House

pytestmark = [pytest.mark.java, pytest.mark.kafka]

NUMBER = 8


@pytest.fixture
def house(kafka: embedded.Runtime, backend: Kafka) -> House:
    return House(kafka, backend)


@pytest.fixture
def transactional(kafka: embedded.Runtime) -> Producer:
    own = {"transactional.id": "a-user-s", "message.timeout.ms": 20_000}
    producer = Producer({**config.producer(kafka.bootstrap_servers, {}, 0), **own})
    producer.init_transactions(30)
    return producer


def in_transactions(producer: Producer, queue: str, sizes: Iterable[int]) -> None:
    """Messages in transactions of so many each: a record follows each that is no message."""
    for size in sizes:
        producer.begin_transaction()
        for _ in range(size):
            producer.produce(queue, b"x", partition=0)
        producer.commit_transaction(30)


def acked(queue: marq.Queue[Any], number: int) -> None:
    found: list[marq.Delivery[Any]] = []

    def enough() -> bool:
        found.extend(queue.receive(number - len(found), "1s"))
        return len(found) == number

    assert eventually(enough)
    for delivery in found:
        delivery.ack()
    queue.flush()


def create_again(admin: Admin, queue: str) -> None:
    """Behind marq's back."""
    before = admin.topic_id(queue)
    admin.delete(queue)
    assert eventually(lambda: admin.topic_id(queue) is None)
    admin.create([(queue, 1, topics.LOGGED)], 1)
    admin.wait_until_led(queue)
    assert eventually(lambda: admin.topic_id(queue) not in (None, before))


def test_what_has_ended_is_trimmed(
    house: House, new_queue: NewQueue, caplog: pytest.LogCaptureFixture
) -> None:
    queue = new_queue(partitions=1)
    queue.send_many([b"x"] * NUMBER)
    acked(queue, NUMBER - 2)

    house.fold()
    house.keep()

    assert house.admin.starts(queue.name, 1) == [NUMBER - 2]
    troubles = [vars(record)["what"] for record in caplog.records if "what" in vars(record)]
    assert not [what for what in troubles if queue.name in what]  # other queues may have some


def test_partitions_that_an_operator_added_are_counted_trimmed_and_purged(
    house: House, connect: Connect, kafka: embedded.Runtime
) -> None:
    name = connect().queue(new_name(), partitions=1).name
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for future in admin.create_partitions([NewPartitions(name, 2)]).values():
        future.result(30)
    house.admin.wait_until_led(name)
    assert eventually(lambda: (house.admin.describe(name) or (b"", 0))[1] == 2)
    queue = connect().queue(name)
    other = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(NUMBER):
        other.produce(name, b"%d" % number, partition=1)
    assert other.flush(30) == 0
    acked(queue, NUMBER - 2)

    house.fold()
    house.keep()

    assert house.admin.starts(name, 2) == [0, NUMBER - 2]
    said = house._writer._said[name]
    assert said is not None and said[0].ready == 2
    queue.purge()
    assert queue.definition.purged[f"{name}:1"] == NUMBER


def test_partitions_added_to_a_topic_that_is_known_are_seen_after_a_while_or_before_a_trim(
    house: House, connect: Connect, kafka: embedded.Runtime
) -> None:
    name, now = connect().queue(new_name(), partitions=1).name, [0.0]
    catalog, troubles = house.recent_catalog(), Troubles()
    looks = [QueueTopics(house.admin, troubles, lambda: now[0]) for _ in range(2)]

    def seen(look: QueueTopics, anew: bool = False) -> int:
        return len(look.look(catalog, [name], Heard(), anew)[name].spans)

    assert [seen(look) for look in looks] == [1, 1]
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for future in admin.create_partitions([NewPartitions(name, 2)]).values():
        future.result(30)
    house.admin.wait_until_led(name)
    assert eventually(lambda: (house.admin.describe(name) or (b"", 0))[1] == 2)

    assert [seen(look) for look in looks] == [1, 1]
    assert seen(looks[0], anew=True) == 2
    now[0] += KNOWN_S
    assert seen(looks[1]) == 2


def test_what_was_appended_lately_stays(house: House, new_queue: NewQueue) -> None:
    queue = new_queue(partitions=1)
    queue.send_many([b"x"] * NUMBER)
    acked(queue, NUMBER)
    house.later_ms = 0

    house.fold()
    house.keep()

    assert house.admin.starts(queue.name, 1) == [0]


def test_a_topic_that_was_created_again_loses_nothing_to_what_ended_in_the_one_before(
    house: House, new_queue: NewQueue
) -> None:
    queue = new_queue(partitions=1)
    queue.send_many([b"x"] * NUMBER)
    acked(queue, NUMBER - 2)
    house.fold()
    house.keep()  # which learns the topic's id
    queue.send_many([b"y"] * NUMBER)
    acked(queue, NUMBER - 2)
    house.fold()

    create_again(house.admin, queue.name)
    queue.send_many([b"new"] * 3 * NUMBER)
    queue.flush()
    house.keep()

    assert house.admin.starts(queue.name, 1) == [0]


class Behind(Admin):
    """An admin client whose broker has not heard yet that a topic was created again."""

    def __init__(self, kafka: embedded.Runtime) -> None:
        super().__init__(config.common(kafka.bootstrap_servers, {}), 20)
        self._before: dict[str, Any] = {}

    def describe_each(self, topics: Iterable[str]) -> dict[str, Any]:
        return {**super().describe_each(topics), **self._before}

    def stop_hearing(self, topic: str) -> None:
        self._before = super().describe_each([topic])


def test_a_broker_that_has_not_heard_of_a_new_topic_costs_no_message(
    kafka: embedded.Runtime, house: House, new_queue: NewQueue
) -> None:
    queue = new_queue(partitions=1)
    queue.send_many([b"x"] * NUMBER)
    acked(queue, NUMBER)
    house.later_ms, house.admin = 500, Behind(kafka)
    house.anew()
    house.fold()
    house.admin.stop_hearing(queue.name)

    create_again(house.backend.admin, queue.name)
    queue.send_many([b"new"] * 3 * NUMBER)
    queue.flush()
    house.keep()

    assert house.admin.starts(queue.name, 1) == [0]


def test_holes_without_a_message_are_trimmed_past_and_those_with_one_are_not(
    house: House, new_queue: NewQueue, transactional: Producer
) -> None:
    queue = new_queue(partitions=1)
    in_transactions(
        transactional, queue.name, [1] * NUMBER
    )  # a message, then a record that is none
    topic_id = house.admin.topic_id(queue.name)
    assert topic_id is not None
    source = Source(topic_id, 0, queue.name, "", 0)

    def end(offset: int) -> None:
        markers, number = house.backend.markers, house.backend.markers_partitions
        place = names.markers_partition(queue.name, 0, number)
        claim = ClaimId(markers.worker, next(house.backend.sequence))
        for marker in (
            Claim(claim, source, offset, ((offset, 1),), 60_000),
            Progress((Step(claim, 1),)),
        ):
            assert markers.append(place, marker).result(20)

    for number in range(NUMBER):
        if number != 3:
            end(2 * number)

    house.fold()
    house.keep()
    assert house.admin.starts(queue.name, 1) == [2 * 3]

    end(2 * 3)
    house.fold()
    house.keep()
    assert house.admin.starts(queue.name, 1) == [2 * NUMBER - 1]


def test_workers_that_begin_behind_a_transaction_leave_no_holes(
    connect: Connect, house: House, new_queue: NewQueue, transactional: Producer
) -> None:
    queue = new_queue(partitions=1)
    for _ in range(3):
        with connect() as worker:
            in_transactions(transactional, queue.name, [2])
            acked(worker.queue(queue.name), 2)

    house.fold()

    sources = house.keeping._heard.sources()
    (count,) = (source for source in sources if source.queue == queue.name)
    assert count.ever == [(0, 8)]  # the last one's record is claimed with what comes after it


def test_a_queue_whose_topic_is_gone_keeps_no_other_from_being_counted_and_trimmed(
    house: House, broker: marq.Broker, new_queue: NewQueue
) -> None:
    gone, queue = new_queue(partitions=1), new_queue(partitions=1)
    queue.send_many([b"x"] * NUMBER)
    acked(queue, NUMBER - 2)
    house.admin.delete(names.dead_letters(gone.name))

    house.fold()

    def noticed() -> bool:
        house.keep()
        return house.keeping.troubles.number > 0

    assert eventually(noticed)

    assert house.admin.starts(queue.name, 1) == [NUMBER - 2]
    said = house._writer._said[queue.name]
    assert said is not None and said[0].ready == 2
    broker.delete_queue(gone.name)


def test_offsets_are_not_set_while_someone_receives(
    house: House, connect: Connect, new_queue: NewQueue
) -> None:
    queue = new_queue(partitions=1)
    group = names.DEFAULT.consumer_group(queue.name)
    queue.send_many([b"x"] * NUMBER)
    with connect() as other:
        acked(other.queue(queue.name), NUMBER)

        assert not house.admin.commit_idle(group, queue.name, [3])
        assert house.admin.committed(group, queue.name, 1) == [NUMBER]

    assert eventually(lambda: house.admin.commit_idle(group, queue.name, [3]))
    assert house.admin.committed(group, queue.name, 1) == [3]


class MovedMeanwhile(Admin):
    """An admin client that looks at a group's offsets just before a worker moves them."""

    def __init__(self, kafka: embedded.Runtime) -> None:
        super().__init__(config.common(kafka.bootstrap_servers, {}), 20)
        self.before: list[int] = []

    def committed(self, group: str, topic: str, partitions: int) -> list[int]:
        found, self.before = self.before, []
        return found or super().committed(group, topic, partitions)


def test_offsets_that_a_worker_moved_meanwhile_are_not_set_back(
    kafka: embedded.Runtime, house: House, new_queue: NewQueue
) -> None:
    queue, admin = new_queue(partitions=1), MovedMeanwhile(kafka)
    group = names.DEFAULT.consumer_group(queue.name)
    queue.send_many([b"x"] * NUMBER)
    house.admin.commit(group, queue.name, [5])

    admin.before = [2]
    IdleGroups(admin, names.DEFAULT).keep(queue.name, 1)

    assert house.admin.committed(group, queue.name, 1) == [5]
