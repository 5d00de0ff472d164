"""Copies one partition of a queue to a group's topic: once and in order, whatever is replayed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import TopicPartition

from marq.core.messages.stored import Outgoing, Stored
from marq.core.subject import Subject
from marq.errors import QueueError
from marq.groups import routing
from marq.groups.config import GroupConfig
from marq.groups.names import GroupNames
from marq.kafka.client.making import Producer
from marq.kafka.groups import transactions
from marq.kafka.groups.clients import LARGEST, GroupClients
from marq.kafka.groups.transactions import AckTransactions, Candidates, ProducerLost

log = logging.getLogger("marq.groups")

_ROOM = 1_024
"""Bytes that a batch adds to its only record."""


class Copier:
    """One transactional producer for one source partition; a second one fences the first."""

    def __init__(
        self,
        cluster: GroupClients,
        names: GroupNames,
        config: GroupConfig,
        partition: int,
        group: Callable[[], Any],
    ) -> None:
        self._names = names
        self._config = config
        self._place = (names.queue, partition)
        made = Candidates(lambda: cluster.transactional(names.copier(partition)))
        producer = made.init()
        made.drop()
        if producer is None:
            raise ProducerLost("no coordinator answers")
        self._producer: Producer = producer
        self._transactions = AckTransactions(producer, group)
        self._largest = largest(cluster, names.base)
        self._letters = Subject(names.queue).letters
        self._cluster = cluster

    def copy(self, records: Iterable[Stored], copied: int, purged: Mapping[str, int]) -> int:
        """Copy what is not copied yet, in one transaction with the new source offset; that offset.

        The caller has looked up `copied` after this copier was made: whoever copied before is
        fenced, so nothing can be added to what that says.
        """
        left = [each for each in records if routing.left_to_copy(each.offset, copied)]
        if not left:
            return copied
        end = left[-1].offset + 1
        copies = (self._routed(each, purged) for each in left)
        outputs = [
            (output, stored.at_ms)
            for stored, output in zip(left, copies, strict=True)
            if output is not None
        ]
        self._transactions.commit([TopicPartition(*self._place, end)], outputs)
        return end

    def _routed(self, record: Stored, purged: Mapping[str, int]) -> Outgoing | None:
        """One strange record must not keep all that follow from coming: it is copied as it is, or
        a dead letter."""
        topic = self._names.base
        try:
            found = routing.routed(record, self._config, topic, purged)
        except Exception as error:
            log.error("copied as it is", extra={"record": record.address}, exc_info=error)
            found = routing.unread(record, self._config, topic)
        if found is None or routing.size(found) <= self._largest:
            return found
        log.error("too large to be copied", extra={"record": record.address, "group": topic})
        most = largest(self._cluster, self._letters)
        return routing.too_large(record, self._names.queue, topic, most)

    def close(self) -> None:
        transactions.discard(self._producer)


def largest(cluster: GroupClients, topic: str) -> int:
    """The largest record that can be copied there."""
    try:
        return min(LARGEST, int(cluster.admin.settings(topic)["max.message.bytes"])) - _ROOM
    except QueueError:  # nobody must be allowed to ask
        return LARGEST - _ROOM


def copied(asker: Any, names: GroupNames, partition: int, timeout_s: float) -> int | None:
    """How far a partition of the queue is copied; None: nothing of it ever was."""
    [found] = asker.committed([TopicPartition(names.queue, partition)], timeout=timeout_s)
    return int(found.offset) if found.offset >= 0 else None
