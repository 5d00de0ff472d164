"""What became of every message of a queue whose tracker trims: by the queue's own records.

The queue keeps what has ended (`retention`), so that every copy the tracker ever made can be read.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import marq
from marq.core import names
from marq.core.messages.stored import Stored
from marq.kafka.backend import Kafka
from marq.kafka.client.record import stored

RETENTION = "1h"


@dataclass(frozen=True)
class Ledger:
    """All records of a queue and of its dead letters, by message."""

    records: list[Stored]
    sent: set[str]
    copies: Counter[tuple[str, int]]
    """How often each copy of each message was written: (message id, copies so far)."""
    attempts: dict[str, int]
    """The highest attempt any record of the message names."""
    due: dict[str, int]
    """By the address of each record, before when it must not be handed out."""
    dead: Counter[str]

    @property
    def twice(self) -> list[tuple[str, int]]:
        """Expiries that were acted on more than once."""
        return [copy for copy, number in self.copies.items() if number > 1]

    @property
    def buried_twice(self) -> list[str]:
        return [message for message, number in self.dead.items() if number > 1]


def read(broker: marq.Broker, queue: str) -> Ledger:
    """The ledger as it stands."""
    records = _records(broker, queue)
    letters = _records(broker, names.dead_letters(queue))
    copies = Counter((record.message_id(), record.meta().copies) for record in records)
    attempts: dict[str, int] = {}
    for record in records:
        name, attempt = record.message_id(), record.meta().attempt
        attempts[name] = max(attempt, attempts.get(name, 0))
    sent = {record.message_id() for record in records if not record.meta().copies}
    due = {record.address: record.meta().due_at(record.at_ms) for record in records}
    dead = Counter(letter.message_id() for letter in letters)
    return Ledger(records, sent, copies, attempts, due, dead)


def _records(broker: marq.Broker, topic: str) -> list[Stored]:
    kafka = broker.backend
    assert isinstance(kafka, Kafka)
    found = kafka.admin.describe(topic)
    assert found is not None, topic
    starts, ends = kafka.admin.starts(topic, found[1]), kafka.admin.ends(topic, found[1])
    spans = dict(enumerate(zip(starts, ends, strict=True)))
    return [stored(message) for message in kafka.reader.read(topic, spans)]
