"""A world that does to one queue, in any order, what might make its topic lose a message."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

from confluent_kafka import Producer

import marq
from marq import embedded
from marq.core import names
from marq.errors import NotConnected, QueueError
from marq.kafka.backend import Kafka
from marq.kafka.client import config
from marq.kafka.cluster import topics
from marq.kafka.cluster.admin import Admin
from tests.e2e.kafka_fixtures import new_name
from tests.e2e.kafka_process import eventually
from tests.kafka.in_process_tracker import InProcessTracker

Options = dict[str, Any]
OPTIONS: Options = {
    "partitions": 1,
    "lease": "1s",
    "max_attempts": 1_000,
    "backoff": ("1ms", "1ms"),
}
PATIENCE_S = 30


class World:
    """One queue, whoever sends to it and receives from it, and a tracker.

    The law: whatever was sent to the topic that is there and that nobody tried to ack lies in the
    queue, beside it, or among its dead letters. Messages are told apart by their payloads: offsets
    come again with a topic that is made again.
    """

    def __init__(
        self, kafka: embedded.Runtime, connect: Callable[[], marq.Broker], seed: int
    ) -> None:
        self._chance = Random(seed)
        self._numbers = count()
        self._connect = connect
        self._broker = connect()
        assert isinstance(self._broker.backend, Kafka)
        self._backend = self._broker.backend
        self._name = new_name()
        self._queue = self._broker.queue(self._name, **OPTIONS)
        self._worker: marq.Broker | None = None
        own = {"transactional.id": self._name, "message.timeout.ms": 20_000}
        self._transactional = Producer({**config.producer(kafka.bootstrap_servers, {}, 0), **own})
        self._transactional.init_transactions(PATIENCE_S)
        self._tracker = InProcessTracker(kafka, self._backend)
        self._sent: set[bytes] = set()
        self._acked: set[bytes] = set()

    def run(self, steps: int) -> None:
        """So many things happen; then all that was sent and is not acked arrives."""
        often = [self.send, self.send_in_a_transaction, self.take, self.take, self.track]
        seldom = [self.leave, self.lose_offsets, self.track_anew, self.make_again, self.others_make]
        for _ in range(steps):
            self._chance.choice(self._chance.choice([often, often, seldom]))()
            self.check()
        self.drain()

    # What may happen.

    def send(self) -> None:
        values = self._values()
        self._queue.send_many(values)
        self._queue.flush()
        self._sent |= set(values)

    def send_in_a_transaction(self) -> None:
        values, commits = self._values(), self._chance.random() < 0.7
        self._transactional.begin_transaction()
        for value in values:
            self._transactional.produce(self._name, value, partition=0)
        if commits:
            self._transactional.commit_transaction(PATIENCE_S)
            self._sent |= set(values)
        else:
            self._transactional.abort_transaction(PATIENCE_S)

    def take(self) -> None:
        """Some of what is received is acked, and of the rest nobody ever hears again."""
        with contextlib.suppress(QueueError):  # the topic is another one: the next one joins anew
            for delivery in self._pulled(self._chance.randint(1, 12)):
                if self._chance.random() < 0.8:
                    self._ack(delivery)

    def leave(self) -> None:
        if self._worker is not None:
            with contextlib.suppress(NotConnected):
                self._worker.close()
            self._worker = None

    def lose_offsets(self) -> None:
        self.leave()
        self._backend.admin.forget_group(names.DEFAULT.consumer_group(self._name))

    def track(self) -> None:
        self._tracker.run()

    def track_anew(self) -> None:
        self._tracker.restart()
        self._tracker.run()

    def make_again(self) -> None:
        self.leave()
        self._broker.delete_queue(self._name)
        self._queue = self._broker.queue(self._name, **OPTIONS)
        self._sent.clear()

    def others_make(self) -> None:
        """Whoever may delete topics does, and knows nothing of marq."""
        self.leave()
        create_again(self._backend.admin, self._name)
        self._sent.clear()

    # What must be.

    def check(self) -> None:
        lost = self._sent - self._acked - self._there()
        assert not lost, f"lost: {sorted(lost)}"

    def drain(self) -> None:
        def done() -> bool:
            with contextlib.suppress(QueueError):
                for delivery in self._pulled(50):
                    self._ack(delivery)
            return self._sent <= self._acked

        assert self._tracker.run(done), f"never came: {sorted(self._sent - self._acked)}"

    def _there(self) -> set[bytes]:
        admin, number = self._backend.admin, self._backend.markers_partitions
        found = set()
        for topic, partitions in (
            (self._name, 1),
            (names.dead_letters(self._name), 1),
            (names.DELAYED, number),
        ):
            ends = zip(admin.starts(topic, partitions), admin.ends(topic, partitions), strict=True)
            for message in self._backend.reader.read(topic, dict(enumerate(ends))):
                found.add(message.value())
        return found

    def _values(self) -> list[bytes]:
        return [b"%d" % next(self._numbers) for _ in range(self._chance.randint(1, 8))]

    def _pulled(self, number: int) -> list[marq.Delivery[Any]]:
        if self._worker is None:
            self._worker = self._connect()
        try:
            return self._worker.queue(self._name).receive(number, "500ms")
        except QueueError:
            self.leave()
            raise

    def _ack(self, delivery: marq.Delivery[Any]) -> None:
        self._acked.add(delivery.payload)
        delivery.ack()


def create_again(admin: Admin, queue: str) -> None:
    """Delete a queue's topic and create it again behind marq's back."""
    before = admin.topic_id(queue)
    admin.delete(queue)
    assert eventually(lambda: admin.topic_id(queue) is None, PATIENCE_S)
    admin.create([(queue, 1, topics.LOGGED)], 1)
    admin.wait_until_led(queue)
    assert eventually(lambda: admin.topic_id(queue) not in (None, before), PATIENCE_S)
