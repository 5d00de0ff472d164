"""Fills a group's topic from its queue, in the processes of its members.

They share the queue's partitions as a consumer group of their own; the transaction of each copy
fences whoever had the partition before.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import defaultdict
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from marq import threads
from marq.core.messages.stored import Stored
from marq.errors import ConfigError, QueueError
from marq.groups.config import GroupConfig
from marq.groups.names import GroupNames
from marq.groups.table import Table
from marq.kafka.access import Access
from marq.kafka.client import codes
from marq.kafka.client.making import take
from marq.kafka.client.record import stored
from marq.kafka.client.refusals import refusal
from marq.kafka.groups.backlog import Backlog
from marq.kafka.groups.clients import GroupClients
from marq.kafka.groups.copying import Copier, copied
from marq.kafka.groups.instance import KafkaInstance
from marq.kafka.groups.transactions import ProducerLost

log = logging.getLogger("marq.groups")

_BATCH = 5_000
_WAIT_S = 0.05
_RETRY_S = 1.0
_LOOK_S = 2.0
_OFTEN, _TOLD = 5, 10
"""After so many restarts in a row a warning is logged, and again after so many more."""


class Router:
    """One thread that copies until it is closed.

    What may pass is tried again for as long as it takes, and what cannot ends every instance it
    serves with an error: nobody would notice otherwise that nothing comes any more.
    """

    def __init__(
        self, access: Access, cluster: GroupClients, names: GroupNames, table: Table
    ) -> None:
        assert table.config is not None
        self._access = access
        self._cluster = cluster
        self._names = names
        self._config: GroupConfig = table.config
        self._sources = table.sources
        self._copiers: dict[int, tuple[Copier, int]] = {}
        """By source partition, with how far it is copied."""
        self._is_paused = False
        self._backlog = Backlog(cluster.admin, names, table.config)
        self._closing = threading.Event()
        self._served: list[KafkaInstance] = []
        self.failure: BaseException | None = None
        self._in_a_row = 0
        self._look_s = 0.0
        self._lost: Exception | None = None
        """What went wrong while partitions were assigned."""
        self._thread = threads.start(self._run, "marq-group-router", self._died)

    def serve(self, instance: KafkaInstance) -> None:
        """Tell this one if copying fails for good."""
        self._served = [*(each for each in self._served if not each.ended), instance]
        if self.failure is not None:
            instance.fail(self.failure)

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    def _died(self, error: BaseException) -> None:
        about = f"nothing is copied to the group {self._names.group!r} of {self._names.queue!r}"
        self.failure = failure = QueueError(f"{about} any more: {error}")
        failure.__cause__ = error
        for each in self._served:
            each.fail(failure)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._copy_until_lost()
            except ConfigError:
                raise  # a right is missing, or this release does not understand the queue
            except (ProducerLost, KafkaException, QueueError) as error:
                # Fenced by whoever has the partition now, or nobody answers: join again.
                self._start_over(error)

    def _start_over(self, error: Exception) -> None:
        self._in_a_row += 1
        level = logging.WARNING if self._in_a_row % _TOLD == _OFTEN else logging.INFO
        about = {"group": self._names.base, "reason": str(error)}
        log.log(level, "copying starts over", extra=about)
        if isinstance(error, KafkaException):
            refused = refusal(error, self._cluster.servers, self._needed(error.args[0]))
            if isinstance(refused, ConfigError):
                raise refused
        self._closing.wait(_RETRY_S * min(self._in_a_row, _TOLD))

    def _needed(self, error: KafkaError) -> str:
        """The right it takes, where this is said to be missing."""
        if codes.is_group_denied(error):
            return f"READ on group {self._names.copied!r}"
        return f"READ on topic {self._names.queue!r}"

    def _copy_until_lost(self) -> None:
        self._is_paused = False
        self._consumer = self._cluster.copy_consumer(self._names)
        self._consumer.subscribe(
            [self._names.queue], on_assign=self._assigned, on_revoke=self._revoked
        )
        try:
            while not self._closing.is_set():
                self._refuse_if_deleted()
                self._pace()
                # Whatever is polled is copied, full or not: a later offset would be committed.
                self._copy(take(self._consumer, _BATCH, _WAIT_S))
                if self._lost is not None:
                    raise self._lost
        finally:
            self._lost = None
            self._revoked(None, [])
            # A coordinator that is away is no reason to end, nor to hide why it came to this.
            with contextlib.suppress(KafkaException):
                self._consumer.close()

    def _refuse_if_deleted(self) -> None:
        """A consumer does not hear of it for half a minute."""
        if (now := time.monotonic()) > self._look_s:
            self._look_s = now + _LOOK_S
            self._purged()

    def _purged(self) -> dict[str, int]:
        """What is void of the queue. One that is deleted is waited for: its groups end with it,
        and tell whoever has an instance."""
        found = self._access.recent_catalog().queue(self._names.queue)
        if found is None:
            raise QueueError(f"the queue {self._names.queue!r} was deleted")
        return found.purged

    def _assigned(self, consumer: Any, places: list[TopicPartition]) -> None:
        """An error must not leave a callback: it would come out of whatever call serves it, closing
        too."""
        try:
            if not self._closing.is_set():
                self._assign(consumer, places)
        except (ProducerLost, KafkaException, QueueError) as error:
            self._lost = error

    def _assign(self, consumer: Any, places: list[TopicPartition]) -> None:
        """Fence first, then ask how far it is copied: no older copier can add to that any more."""
        for place in places:
            group = consumer.consumer_group_metadata
            copier = Copier(self._cluster, self._names, self._config, place.partition, group)
            found = copied(consumer, self._names, place.partition, self._cluster.timeout_s)
            place.offset = self._start(consumer, place, found)
            self._copiers[place.partition] = copier, place.offset
        consumer.incremental_assign(places)

    def _start(self, consumer: Any, place: TopicPartition, found: int | None) -> int:
        """Where copying goes on. What is not there any more was deleted by someone else's doing: it
        is told, and must not keep what follows from coming."""
        number = place.partition
        sources = self._sources[number : number + 1]  # none: the queue had fewer then
        start = found if found is not None else sources[0] if sources else 0
        first, _ = consumer.get_watermark_offsets(place, timeout=self._cluster.timeout_s)
        if start < first:
            about = {"group": self._names.base, "partition": number, "from": start, "to": first}
            log.error("messages were deleted before they were copied", extra=about)
        return max(start, int(first))

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
        purged = self._purged() if messages else {}
        for number, records in by_partition.items():
            if number in self._copiers:
                copier, copied = self._copiers[number]
                self._copiers[number] = copier, copier.copy(records, copied, purged)
                self._in_a_row = 0

    def _pace(self) -> None:
        """Stop reading while as much waits as may."""
        full = self._backlog.is_full()
        if full != self._is_paused:
            self._is_paused = full
            change = self._consumer.pause if full else self._consumer.resume
            change(self._consumer.assignment())
