"""Logs read by offset on a real broker: what counts as their end, and what does not."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from marq import embedded
from marq.core.markers import codec
from marq.core.markers.marker import Claim, ClaimId, Source
from marq.kafka.backend import Kafka
from marq.kafka.client import config
from marq.kafka.cluster import topics
from marq.kafka.cluster.admin import Admin
from marq.kafka.cluster.reader import LogReader
from tests.e2e.kafka_fixtures import NewQueue, new_name

pytestmark = [pytest.mark.java, pytest.mark.kafka]

NUMBER, TRIMMED = 10, 4


class TrimmedMeanwhile(Admin):
    """An admin client with bad luck: the log is trimmed as soon as it was told where it starts."""

    later = 0

    def starts(self, topic: str, partitions: int) -> list[int]:
        found = super().starts(topic, partitions)
        if self.later:
            self.trim({(topic, 0): self.later})
            self.later = 0
        return found


def reader(kafka: embedded.Runtime, admin: Admin) -> LogReader:
    return LogReader(config.reader(kafka.bootstrap_servers, {}), admin, 10)


def test_a_log_trimmed_before_it_is_read_is_read_from_its_start(
    backend: Kafka, new_queue: NewQueue
) -> None:
    queue = new_queue(partitions=2)
    queue.send_many([b"%d" % number for number in range(2 * NUMBER)])
    ends = backend.admin.ends(queue.name, 2)
    backend.admin.trim({(queue.name, number): end // 2 for number, end in enumerate(ends)})

    read = backend.reader.read(queue.name, {n: (0, end) for n, end in enumerate(ends)})

    found = {(message.partition(), message.offset()) for message in read}
    assert found == {(n, at) for n, end in enumerate(ends) for at in range(end // 2, end)}


def test_a_log_trimmed_to_its_end_before_it_is_read_has_nothing(
    backend: Kafka, new_queue: NewQueue
) -> None:
    queue = new_queue(partitions=1)
    queue.send_many([b"x"] * NUMBER)
    backend.admin.trim({(queue.name, 0): NUMBER})

    assert list(backend.reader.read(queue.name, {0: (0, NUMBER)})) == []


def test_a_hold_log_trimmed_while_it_is_looked_up_is_folded_all_the_same(
    kafka: embedded.Runtime,
) -> None:
    admin = TrimmedMeanwhile(config.common(kafka.bootstrap_servers, {}), 10)
    log, source = new_name(), Source(bytes(16), 0, "orders", "", 0)
    admin.create([(log, 1, topics.LOGGED)], 1)
    admin.wait_until_led(log)
    producer = Producer(config.producer(kafka.bootstrap_servers, {}, 0))
    for number in range(NUMBER):
        claim = Claim(ClaimId(7, number), source, number, ((number, 1),), 60_000)
        producer.produce(log, codec.encode(claim), partition=0)
    assert producer.flush(10) == 0
    admin.later = TRIMMED

    state = reader(kafka, admin).folded_one(log, 0)

    assert [claim.runs for claim in state.claims.values()] == [
        ((number, 1),) for number in range(TRIMMED, NUMBER)
    ]
    assert state.next_offset == NUMBER
