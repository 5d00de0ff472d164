"""A fenced, transactional producer: all of it is written, or nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from marq.core.stored import Outgoing
from marq.errors import NotConnected, QueueError
from marq.kafka.clients import warm_producer
from marq.kafka.config import Config

TIMEOUT_MS = 5_000
"""After so long the broker aborts what a dead tracker left open."""
_OPEN_S = 20.0
_FENCED = (
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
)
_NEVER = (
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.INVALID_RECORD,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.POLICY_VIOLATION,
)


class Superseded(QueueError):
    """Another tracker has opened the same partition since."""


class Unsure(QueueError):
    """Whether it was written is not known: look at the log again."""


class Transactions:
    """One transactional id. Opening it ends, one way or the other, whatever an earlier one began,
    and nothing an earlier one tries afterwards succeeds."""

    def __init__(self, settings: Config, transactional_id: str) -> None:
        self._producer = warm_producer(
            {
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
        )
        self._do(lambda: self._producer.init_transactions(_OPEN_S))

    def write(self, records: Sequence[Outgoing]) -> set[int]:
        """Write all these, or none: then it says which of them no broker will ever take."""
        refused: set[int] = set()
        failed: list[KafkaError] = []
        self._do(self._producer.begin_transaction)
        for number, record in enumerate(records):
            self._produce(number, record, refused, failed)
        self._producer.flush(TIMEOUT_MS / 1_000)
        if refused:
            self._do(lambda: self._producer.abort_transaction(TIMEOUT_MS / 1_000))
            return refused
        self._do(lambda: self._producer.commit_transaction(TIMEOUT_MS / 1_000))
        return refused

    def _produce(
        self, number: int, record: Outgoing, refused: set[int], failed: list[KafkaError]
    ) -> None:
        def report(error: KafkaError | None, _: Any) -> None:
            if error is not None:
                (refused.add if error.code() in _NEVER else lambda _: failed.append(error))(number)

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
            if error.args[0].code() not in _NEVER:
                raise _meaning(error) from None
            refused.add(number)
        except BufferError:  # 8 MB never fill it: something is stuck
            raise Unsure("the producer's buffer is full") from None

    def _do(self, step: Any) -> None:
        try:
            step()
        except KafkaException as error:
            raise _meaning(error) from None

    def close(self) -> None:
        """Let go without a word: what is open is aborted by the next one."""
        with contextlib.suppress(KafkaException):
            self._producer.purge()


def _meaning(error: KafkaException) -> QueueError:
    cause = error.args[0]
    if cause.code() in _FENCED or cause.fatal():
        return Superseded(f"fenced by another tracker: {cause.str()}")
    if cause.code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT):
        return NotConnected(f"no broker answers the tracker: {cause.str()}")
    return Unsure(cause.str())
