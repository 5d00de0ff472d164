"""Fills a group's topic from its queue, in the processes of its members.

They share the queue's partitions as a consumer group of their own; the transaction of each copy
fences whoever had the partition before.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, TopicPartition

from marq.core.stored import Stored
from marq.errors import QueueError
from marq.groups.config import GroupConfig
from marq.groups.names import GroupNames
from marq.groups.table import Table
from marq.kafka.clients import take
from marq.kafka.groups.backlog import Backlog
from marq.kafka.groups.clients import Cluster
from marq.kafka.groups.copying import Copier, copied
from marq.kafka.groups.transactions import Superseded
from marq.kafka.record import stored

if TYPE_CHECKING:
    from marq.kafka.backend import Kafka

log = logging.getLogger("marq.groups")

_BATCH = 5_000
_WAIT_S = 0.05
_RETRY_S = 1.0


class Router:
    """One thread that copies until it is closed."""

    def __init__(self, kafka: Kafka, cluster: Cluster, names: GroupNames, table: Table) -> None:
        assert table.config is not None
        self._kafka = kafka
        self._cluster = cluster
        self._names = names
        self._config: GroupConfig = table.config
        self._sources = table.sources
        self._copiers: dict[int, tuple[Copier, int]] = {}
        """By source partition, with how far it is copied."""
        self._is_paused = False
        self._backlog = Backlog(cluster.admin, names, table.config)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="marq-group-router", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._copy_until_lost()
            except (Superseded, KafkaException, QueueError) as error:
                # Fenced by whoever has the partition now, or nobody answers: join again.
                log.info("copying starts over", extra={"reason": str(error)})
                self._closing.wait(_RETRY_S)

    def _copy_until_lost(self) -> None:
        self._is_paused = False
        self._consumer = self._cluster.copy_consumer(self._names)
        self._consumer.subscribe(
            [self._names.queue], on_assign=self._assigned, on_revoke=self._revoked
        )
        try:
            while not self._closing.is_set():
                self._pace()
                # Whatever is polled is copied, full or not: a later offset would be committed.
                self._copy(take(self._consumer, _BATCH, _WAIT_S))
        finally:
            self._revoked(None, [])
            self._consumer.close()

    def _assigned(self, consumer: Any, places: list[TopicPartition]) -> None:
        """Fence first, then ask how far it is copied: no older copier can add to that any more."""
        for place in places:
            group = consumer.consumer_group_metadata
            copier = Copier(self._cluster, self._names, self._config, place.partition, group)
            found = copied(consumer, self._names, place.partition, self._cluster.timeout_s)
            start = self._sources[place.partition] if found is None else found
            self._copiers[place.partition] = copier, start
            place.offset = start
        consumer.incremental_assign(places)

    def _revoked(self, consumer: Any, places: list[TopicPartition]) -> None:
        gone = [each.partition for each in places] or list(self._copiers)
        for number in gone:
            if number in self._copiers:
                self._copiers.pop(number)[0].close()

    def _copy(self, messages: list[Any]) -> None:
        by_partition: dict[int, list[Stored]] = defaultdict(list)
        for message in messages:
            if (error := message.error()) is not None:
                if not error.retriable():
                    raise KafkaException(error)
            else:
                by_partition[message.partition()].append(stored(message))
                self._backlog.mean_bytes += (len(message) - self._backlog.mean_bytes) / 100
        purged = self._kafka.definition(self._names.queue).purged if messages else {}
        for number, records in by_partition.items():
            if number in self._copiers:
                copier, copied = self._copiers[number]
                self._copiers[number] = copier, copier.copy(records, copied, purged)

    def _pace(self) -> None:
        """Stop reading while as much waits as may."""
        full = self._backlog.is_full()
        if full != self._is_paused:
            self._is_paused = full
            change = self._consumer.pause if full else self._consumer.resume
            change(self._consumer.assignment())
