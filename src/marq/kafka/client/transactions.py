"""A fenced, transactional producer: all of it is written, or nothing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from marq.core.messages.stored import Outgoing
from marq.errors import NotConnected, QueueError
from marq.kafka.client import codes
from marq.kafka.client.config import Config
from marq.kafka.client.making import warm_producer
from marq.kafka.client.refusals import denied

T = TypeVar("T")

TIMEOUT_MS = 5_000
"""After so long the broker aborts what a dead tracker left open."""
_OPEN_S = 20.0
_TOLD_S = 6.0
"""By then it is known of every record whether a broker took it."""
_FLUSH_S = 0.1


class ProducerFenced(QueueError):
    """Another tracker has opened the same partition since."""


class Unsure(QueueError):
    """Whether it was written is not known: look at the log again."""


class Away(QueueError):
    """Nobody takes records for these partitions now; nothing was written."""

    def __init__(self, places: set[tuple[str, int]]) -> None:
        super().__init__(f"no broker takes records for {sorted(places)}")
        self.places = places


class Transactions:
    """One transactional id. Opening it ends, one way or the other, whatever an earlier one began,
    and nothing an earlier one tries afterwards succeeds."""

    def __init__(self, settings: Config, transactional_id: str) -> None:
        self._settings = {
            **settings,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": TIMEOUT_MS,
            "message.timeout.ms": TIMEOUT_MS,
            # The default of 100 ms is waited for in every transaction.
            "retry.backoff.ms": 1,
            "retry.backoff.max.ms": 10,
            "linger.ms": 0,
            # A copy is a little larger than what was sent.
            "message.max.bytes": 100_000_000,
        }
        self._open()

    def _open(self) -> None:
        self._producer = warm_producer(self._settings)
        self._do(lambda: self._producer.init_transactions(_OPEN_S))

    @property
    def _needed(self) -> str:
        return f"WRITE on transactional id {self._settings['transactional.id']!r}"

    def write(self, records: Sequence[Outgoing]) -> set[int]:
        """Write all these, or none: then it says of which of them a broker refused the batch they
        were in. There may be more that it did not come to. `Away` if the last record, which says
        what was done, is taken, and others are not.

        From the first refusal on it compresses, whatever the user set: what a sender compressed
        was within the topic's limit so, and may be far beyond it otherwise. Not by default, for it
        costs time; by gzip, for that every reader can undo.
        """
        refused = self._tried(records)
        if not refused or self._compresses:
            return refused
        self._reopen({"compression.type": "gzip"})
        return self._tried(records)

    def _tried(self, records: Sequence[Outgoing]) -> set[int]:
        refused: set[int] = set()
        late: set[int] = set()
        self._do(self._producer.begin_transaction)
        for number, record in enumerate(records):
            self._produce(number, record, refused, late)
        self._flush(refused)
        if late and not refused and len(records) - 1 not in late:
            self._reopen({})
            raise Away({(records[each].topic, records[each].partition) for each in late})
        if not refused:
            self._do(lambda: self._producer.commit_transaction(TIMEOUT_MS / 1_000))
        elif self._compresses:
            self._reopen({})
        return refused

    @property
    def _compresses(self) -> bool:
        return self._settings.get("compression.type") == "gzip"

    def _reopen(self, more: Config) -> None:
        """After a refusal. Not by an abort: a producer that was refused a record counts that record
        all the same, and its next transaction would fail for want of it (librdkafka 2.16)."""
        self.close()
        self._settings |= more
        self._open()

    def _flush(self, refused: set[int]) -> None:
        """Wait until all is written, or something refused: then the rest waits in vain."""
        until = time.monotonic() + _TOLD_S
        while self._do(lambda: self._producer.flush(_FLUSH_S)) and not refused:
            if time.monotonic() > until:
                return  # the commit fails and tells

    def _produce(self, number: int, record: Outgoing, refused: set[int], late: set[int]) -> None:
        def report(error: KafkaError | None, _: Any) -> None:
            if error is not None and codes.is_refused(error):  # else the commit fails and tells
                refused.add(number)
            elif error is not None and codes.is_late(error):
                late.add(number)

        try:
            self._producer.produce(
                record.topic,
                record.value,
                record.key,
                partition=record.partition,
                headers=list(record.headers),
                on_delivery=report,
            )
        except KafkaException as error:
            if not codes.is_refused(error.args[0]):
                raise _meaning(error, self._needed) from None
            refused.add(number)
        except (ValueError, TypeError, OverflowError):  # nothing that librdkafka could send
            refused.add(number)
        except BufferError:  # 8 MB never fill it: something is stuck
            raise Unsure("the producer's buffer is full") from None

    def _do(self, step: Callable[[], T]) -> T:
        try:
            return step()
        except KafkaException as error:
            raise _meaning(error, self._needed) from None

    def close(self) -> None:
        """Let go without a word: what is open is aborted by the next one."""
        with contextlib.suppress(KafkaException):
            self._producer.purge()


def _meaning(error: KafkaException, needed: str) -> QueueError:
    cause = error.args[0]
    if codes.is_id_denied(cause):
        return denied(needed, cause.str())
    if codes.is_fenced(cause):
        return ProducerFenced(f"fenced by another tracker: {cause.str()}")
    if codes.is_unanswered(cause):
        return NotConnected(f"no broker answers the tracker: {cause.str()}")
    return Unsure(cause.str())
