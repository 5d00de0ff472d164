"""The queues that are measured, and what the logs say afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

import marq
from marq.bench.altering import alter_brokers
from marq.bench.plan import PARTITIONS, SMALL_BATCH, Batches, Case
from marq.core.fold.fold import Record, fold
from marq.core.fold.state import State
from marq.core.markers import codec
from marq.errors import RuntimeFailed
from marq.kafka.backend import Kafka
from marq.kafka.client import config

_STRIPE = 256
"""Messages one partition gets in a row: all of them fill at the same pace."""


class Stage:
    """Makes, fills, rewinds and deletes queues."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._broker = marq.connect(f"kafka://{servers}")
        assert isinstance(self._broker.backend, Kafka)
        self._kafka = self._broker.backend

    def close(self) -> None:
        self._broker.close()

    @contextmanager
    def queue(self, name: str) -> Iterator[str]:
        """An empty queue that is deleted afterwards: disk use stays bounded."""
        self._broker.queue(name, partitions=PARTITIONS)
        try:
            yield name
        finally:
            self._broker.delete_queue(name)

    @contextmanager
    def filled(self, name: str, case: Case, messages: int) -> Iterator[str]:
        """A queue with that many messages; any Kafka record is one."""
        with self.queue(name):
            _fill(Producer(_filler(self.servers, case.batches)), name, case.size, messages)
            if (found := self.sent(name)) != messages:
                raise RuntimeFailed(f"{found} of {messages} messages arrived in {name}")
            yield name

    def sent(self, queue: str) -> int:
        """Messages in a queue."""
        return sum(self._kafka.admin.ends(queue, PARTITIONS))

    def rewind(self, queue: str) -> None:
        """Let the next reader begin at the first message again."""
        starts = self._kafka.admin.starts(queue, PARTITIONS)
        self._kafka.admin.commit(self._kafka.space.consumer_group(queue), queue, starts)

    # Markers.

    def markers(self) -> list[int]:
        """Where the log of markers ends, by partition."""
        return self._kafka.admin.ends(self._kafka.space.markers, self._kafka.markers_partitions)

    def acked(self, since: list[int]) -> int:
        """Messages claimed and ended by the markers written since, by the fold the tracker runs."""
        spans = dict(enumerate(zip(since, self.markers(), strict=True)))
        states = [State() for _ in since]
        for message in self._kafka.reader.read(self._kafka.space.markers, spans):
            record = Record(message.offset(), 0, codec.decode(message.value()))
            fold(states[message.partition()], (record,))
        return sum(map(_ended, states))


def _ended(state: State) -> int:
    claimed = sum(end - start for ever in state.claimed.values() for start, end in ever.runs)
    return claimed - sum(claim.open.bit_count() for claim in state.claims.values())


def _filler(servers: str, batches: Batches) -> config.Config:
    """A fast producer whose batches are as large as the case says."""
    settings = config.producer(servers, {}, linger_ms=5)
    fast: config.Config = {"enable.idempotence": False, "acks": "1"}
    small: config.Config = {"batch.num.messages": SMALL_BATCH, "linger.ms": 0}
    return {**settings, **fast, **(small if batches == "small" else {})}


def _fill(producer: Producer, topic: str, size: int, messages: int) -> None:
    payload = bytes(size)
    for number in range(messages):
        partition = number // _STRIPE % PARTITIONS
        while True:
            try:
                producer.produce(topic, payload, partition=partition)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()


def delete_at_once(servers: str) -> None:
    """Have a broker free the disk space of deleted topics after a second, not a minute."""
    alter_brokers(servers, "log.segment.delete.delay.ms", "1000")
