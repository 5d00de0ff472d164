"""Transactions of one owner: acks, and what is written together with them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from marq.core.messages.stored import Outgoing
from marq.errors import ConfigError, QueueError
from marq.kafka.client import codes
from marq.kafka.client.making import Producer
from marq.kafka.client.refusals import denied

_CALL_S = 5.0
_PATIENCE_S = 15.0
"""How long an outcome may stay unknown: three times the transaction's own timeout."""


class ProducerLost(Exception):
    """The producer is fenced, or an outcome stayed unknown: throw the producer away."""


class AckTransactions:
    """One transactional producer; one transaction at a time, the caller sees to it."""

    def __init__(self, producer: Producer, group: Callable[[], Any]) -> None:
        self._producer = producer
        self._group = group
        """Whose offsets are committed, as of now: the generation of a member changes."""

    def commit(
        self,
        offsets: list[TopicPartition],
        outputs: Iterable[tuple[Outgoing, int]] = (),
    ) -> None:
        """All of it or nothing; outputs with their time, 0: now.

        `Superseded` if we are not the owner, or nobody knows; another `QueueError` if an output
        cannot be written: then nothing was.
        """
        topics = set[str]()
        try:
            _call(self._producer.begin_transaction)
            for output, at_ms in outputs:
                topics.add(f"topic {output.topic!r}")
                self._produce(output, at_ms)
            _call(lambda: self._offsets(offsets))
            # An unknown outcome is asked for again, and never counts as a rollback.
            _call(lambda: self._producer.commit_transaction(_CALL_S))
        except _Abort as error:
            self._abort()
            if error.is_denied:
                needed = f"WRITE on {' and '.join(sorted(topics))}" if topics else ""
                raise denied(needed, f"nothing was acked or sent: {error}") from None
            raise QueueError(f"nothing was acked or sent: {error}") from None

    def _abort(self) -> None:
        try:
            _call(lambda: self._producer.abort_transaction(_CALL_S))
        except _Abort as error:
            raise ProducerLost(str(error)) from None

    def _offsets(self, offsets: list[TopicPartition]) -> None:
        self._producer.send_offsets_to_transaction(offsets, self._group(), _CALL_S)

    def _produce(self, output: Outgoing, at_ms: int) -> None:
        headers: Any = list(output.headers)
        try:
            self._producer.produce(
                output.topic,
                output.value,
                output.key,
                output.partition,
                headers=headers,
                timestamp=at_ms,
            )
        except (BufferError, KafkaException) as error:
            raise _Abort(str(error)) from None


class _Abort(Exception):
    """The transaction can only be rolled back."""

    is_denied = False

    @classmethod
    def of(cls, reason: KafkaError) -> _Abort:
        found = cls(reason.str())
        found.is_denied = codes.is_denied(reason)
        return found


def _call(call: Callable[[], Any]) -> None:
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            call()
            return
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.txn_requires_abort():
                raise _Abort.of(reason) from None
            if not reason.retriable() or reason.fatal() or time.monotonic() > until:
                raise ProducerLost(reason.str()) from None
        except SystemError as error:  # raised by flush on a fenced producer
            raise ProducerLost(str(error)) from None


def _refuse_if_denied(error: KafkaError) -> None:
    """A right that is missing does not come by itself: whoever waits gets the error."""
    if codes.is_denied(error):
        raise ConfigError(
            f"the cluster refuses the rights to write transactions: {error.str()}. An ordered "
            f"group needs WRITE on the transactional ids that begin with its name, marq.group.…"
        )


class Candidates:
    """Two warm producers with a member's transactional id, to take over fast."""

    def __init__(self, make: Callable[[], Producer]) -> None:
        self._make = make
        self._warm: list[Producer] = []

    def prepare(self) -> None:
        while len(self._warm) < 2:
            self._warm.append(self._make())

    def init(self) -> Producer | None:
        """A producer that has fenced all others; None if no coordinator answers, `ConfigError` if
        it may not be.

        The first try mostly fails at once while the coordinator aborts what hangs, and would wait
        half a second to ask again. It must be dropped before the second, or it fences that.
        """
        self.prepare()
        while self._warm:
            producer = self._warm.pop(0)
            try:
                producer.init_transactions(0.03 if self._warm else _PATIENCE_S)
                return producer
            except KafkaException as error:
                discard(producer)
                _refuse_if_denied(error.args[0])
        return None

    def drop(self) -> None:
        for producer in self._warm:
            discard(producer)
        self._warm.clear()


def discard(producer: Producer) -> None:
    """Throw a producer away with all it has not sent."""
    with contextlib.suppress(KafkaException, SystemError):
        producer.purge(in_queue=True, in_flight=True)
