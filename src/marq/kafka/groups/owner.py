"""One claim of a member: its producer, its tenures, and the transactions that ack."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import TopicPartition

from marq import threads
from marq.core.messages.stored import Outgoing
from marq.errors import Fenced, QueueError
from marq.kafka.client.making import Producer
from marq.kafka.client.refusals import Denied
from marq.kafka.groups import transactions
from marq.kafka.groups.delivery import KafkaGroupDelivery
from marq.kafka.groups.tenure import Tenure, fenced
from marq.kafka.groups.transactions import AckTransactions, ProducerLost

log = logging.getLogger("marq.groups")

LINGER_S = 0.005
"""How long acks wait for others: a transaction costs 3 ms, however many are in it."""
IDLE_COMMIT_S = 86_400.0
"""Offsets of groups without members expire after 7 days: what is idle is committed daily."""
RETRY_S = 1.0
TRIM_S = 5.0

Letter = Callable[[KafkaGroupDelivery, str], Outgoing | None]


class Owner:
    """Whoever holds a claim. One lock guards the holds: a transaction that acks a partition is
    over, one way or the other, before the partition is let go."""

    def __init__(
        self,
        claim: str,
        producer: Producer,
        group: Callable[[], Any],
        topic: str,
        ack_wait_s: float,
    ) -> None:
        self.claim = claim
        self.ack_wait_s = ack_wait_s
        self.letter: Letter = lambda delivery, reason: None
        self.moved: Callable[[], None] = lambda: None
        """Told that hands should look again."""
        self.lost: Callable[[], None] = lambda: None
        """Told, once, that the producer is fenced."""
        self.failed: Callable[[BaseException], None] = lambda error: None
        """Told by a thread that has died: without it nothing is handed out, or acked."""
        self.trim: Callable[[dict[int, int]], None] = lambda committed: None
        """Told now and then up to where the log is no longer needed."""
        self._trim_s = time.monotonic() + TRIM_S
        self._producer: Producer | None = producer
        self._transactions = AckTransactions(producer, group)
        self._topic = topic
        self._lock = threading.RLock()
        self.tenures: dict[int, Tenure] = {}
        self._dirty = threading.Event()
        self._closed = False
        self._flusher = threads.start(self._run, "marq-group-acks", self._died)

    def dirty(self) -> None:
        """Something is to be committed, and hands may go on."""
        if not self._dirty.is_set():
            self._dirty.set()
        self.moved()

    # Transactions.

    def recommit(self, marks: dict[int, tuple[int, str]]) -> None:
        """Commit offsets as they were found, with a note each: shows whether we are fenced."""
        offsets = [TopicPartition(self._topic, p, at, note) for p, (at, note) in marks.items()]
        with self._lock:
            try:
                self._commit(offsets, [])
            except Denied:
                raise
            except QueueError as error:
                raise ProducerLost(str(error)) from None  # whoever cannot commit is no owner

    def note(self, tenure: Tenure, text: str) -> None:
        """Write a note beside a tenure's offset. Not once the partition was let go: the offset is
        another member's then, and this would set it back."""
        with self._lock:
            if tenure.closed:
                raise ProducerLost("the partition was let go")
            place = TopicPartition(self._topic, tenure.partition, tenure.watermark, text)
            try:
                self._commit([place], [])
            except QueueError as error:
                log.warning("a delivery goes uncounted", extra={"reason": str(error)})

    def double_ack(
        self, tenure: Tenure, delivery: KafkaGroupDelivery, outputs: list[Outgoing]
    ) -> None:
        """Commit through this message, with the outputs; return when it is a fact."""
        tenure.wait_for_turn(delivery)
        with self._lock:
            if self._closed or tenure.closed:
                raise fenced(delivery)
            marks = self._marks()
            marks[tenure.partition] = delivery.offset + 1
            try:
                self._flush(marks, outputs)
            except ProducerLost:
                raise fenced(delivery) from None
            except QueueError:
                tenure.in_progress(delivery)  # still the handler's to settle
                raise
            tenure.finish(delivery)
        self.moved()

    def flush(self) -> None:
        """Commit all acks so far."""
        with self._lock:
            if not self._closed and (marks := self._marks()):
                self._flush(marks, [])

    def _marks(self) -> dict[int, int]:
        idle_s = time.monotonic() - IDLE_COMMIT_S
        return {
            number: tenure.watermark
            for number, tenure in self.tenures.items()
            if tenure.watermark > tenure.committed or tenure.last_commit_s < idle_s
        }

    def _flush(self, marks: dict[int, int], outputs: list[Outgoing]) -> None:
        letters = [each for p, at in marks.items() for each in self.tenures[p].letters(at)]
        offsets = [TopicPartition(self._topic, p, at) for p, at in marks.items()]
        self._commit(offsets, [*letters, *outputs])
        for number, watermark in marks.items():
            self.tenures[number].commits(watermark)

    def _commit(self, offsets: list[TopicPartition], outputs: list[Outgoing]) -> None:
        if self._closed:
            raise ProducerLost("given up")
        try:
            self._transactions.commit(offsets, [(each, 0) for each in outputs])
        except ProducerLost:
            self.close()
            self.lost()
            raise

    def release(self, partitions: frozenset[int]) -> None:
        """Let partitions go: they accept no more acks, and those made so far are committed."""
        with self._lock:
            for number in partitions & self.tenures.keys():
                self.tenures[number].close()
            self.flush()
            for number in partitions:
                self.tenures.pop(number, None)

    def _run(self) -> None:
        while not self._closed:
            if not self._dirty.wait(1.0):
                self._quietly()  # what is idle for a day
                continue
            time.sleep(LINGER_S)
            self._dirty.clear()
            self._quietly()
            self._trim_if_due()

    def _died(self, error: BaseException) -> None:
        """Nobody commits any more: what is acked from now on must be refused."""
        self.close()
        self.failed(error)
        self.lost()

    def _trim_if_due(self) -> None:
        if time.monotonic() > self._trim_s and not self._closed:
            self._trim_s = time.monotonic() + TRIM_S
            try:
                self.trim({number: each.committed for number, each in self.tenures.items()})
            except QueueError as error:  # no harm: the next time will do
                log.info("the log was not trimmed", extra={"reason": str(error)})

    def _quietly(self) -> None:
        try:
            self.flush()
        except (ProducerLost, Fenced):
            pass  # reported already
        except Denied:
            raise  # trying again changes nothing: the instance ends, and says so
        except QueueError as error:
            log.warning("acks cannot be committed, trying again", extra={"reason": str(error)})
            time.sleep(RETRY_S)
            self._dirty.set()

    def close(self) -> None:
        """Stop at once: nothing is acked any more. Waits for a transaction under way."""
        self._closed = True
        for tenure in list(self.tenures.values()):
            tenure.close()
        self._dirty.set()

    def discard(self) -> None:
        """Close, and throw the producer away."""
        self.close()
        producer, self._producer = self._producer, None
        if producer is not None:
            transactions.discard(producer)
        if self._flusher is not threading.current_thread():
            self._flusher.join()
