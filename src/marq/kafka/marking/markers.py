"""Writes markers: claims at once, progress and holds coalesced over a few ms, one beat for all."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from marq import threads
from marq.core.fate.settling import PUMP_LEASE_MS
from marq.core.markers import codec
from marq.core.markers.marker import Marker, Tick
from marq.core.subject import Subject
from marq.errors import NotConnected, QueueError
from marq.kafka.client.answers import Answer, WaitingRoom
from marq.kafka.client.clock import BrokerClock
from marq.kafka.leasing.append_time import AppendTime
from marq.kafka.leasing.desk import Desk
from marq.kafka.leasing.ledger import Beat, Ledger, reported
from marq.kafka.leasing.live import LiveClaim
from marq.kafka.leasing.statements import Reply, Statement, marker, settled
from marq.kafka.marking.marker_producer import MarkerProducer, MarkerRecord, OutcomeReport

CLOSE_S = 10.0
"""How long closing waits for the log."""
FLUSH_S = 0.003
"""How long progress is gathered before it is written."""
_BEAT_S = PUMP_LEASE_MS / 4_000
_POLL_S = 0.1
MOST_BYTES = 900_000
"""Of a record: what is larger, no broker takes as it is set up by default."""

NOT_SETTLED = "acks, retries or rejects are not in the log: those messages come again"

log = logging.getLogger("marq.kafka")


class Markers:
    """One producer for all markers of a process."""

    def __init__(
        self,
        settings: dict[str, Any],
        hold_log: tuple[str, int],
        worker: int,
        failed: Callable[[QueueError], None] = lambda error: None,
    ) -> None:
        self.clock = BrokerClock()
        self.worker = worker
        self.waiting = WaitingRoom()
        self.failure: QueueError | None = None
        """Why nothing can be settled here any more."""
        self._failed = failed
        self._producer = MarkerProducer(settings, hold_log[0], self.clock, self._fail)
        self._dirty = threading.Event()
        self._flushing = threading.Lock()
        self._closing = False
        self.ledgers = [Ledger(number, self) for number in range(hold_log[1])]
        self._next_beat = 0.0
        self._beating = threading.Lock()
        self._refused: list[Reply] = []
        """What was settled in vain, until a flush has told of it."""
        self._flusher = threads.start(self._flush_when_dirty, "marq-flusher", self._died)
        for ledger in self.ledgers:  # asks what time it is
            self.write(ledger.partition, Tick(), lambda appended: None, again=False)

    def ledger(self, topic: str, partition: int) -> Ledger:
        """Where a source partition is kept account of."""
        return self.ledgers[Subject(topic).markers_partition(partition, len(self.ledgers))]

    def wake(self) -> None:
        """Have the flusher look what is to be written."""
        self._dirty.set()

    def write(
        self, partition: int, marker: Marker, report: OutcomeReport, again: bool = True
    ) -> None:
        """Write a marker; one whose outcome is unknown is sent again unchanged."""
        self._producer.write(MarkerRecord(partition, codec.encode(marker), report, again=again))

    # Claims.

    def claim(self, live: LiveClaim, answered: Callable[[], None]) -> None:
        """Write a claim; `answered` is called when the log has it, or never will."""

        def heard(appended: AppendTime | None) -> None:
            live.answered(appended)
            answered()

        self.write(live.desk.partition, live.claim, heard)

    def append(self, partition: int, marker: Marker) -> Answer[bool]:
        """Write a marker and answer whether the log has it, for whoever needs no more of it."""
        answer: Answer[bool] = Answer(self.waiting)
        self.write(partition, marker, lambda appended: answer.fill(appended is not None))
        return answer

    # Progress, coalesced.

    def _flush_when_dirty(self) -> None:
        while not self._closing:
            self._dirty.wait(max(0.0, min(self._next_beat - time.monotonic(), _POLL_S)))
            self.clock.tick()
            for ledger in self.ledgers:
                ledger.end_copied()
            if self._dirty.is_set():
                time.sleep(FLUSH_S)
                with contextlib.suppress(Exception):  # told to those it concerns
                    self.flush_now()
            if time.monotonic() >= self._next_beat:
                with self._beating:
                    self._next_beat = time.monotonic() + _BEAT_S
                self._beat()

    def flush_now(self) -> None:
        """Write what has gathered."""
        self._dirty.clear()
        for ledger in self.ledgers:
            ledger.end_copied()
            self.flush_ledger(ledger)

    def flush_ledger(self, ledger: Desk) -> None:
        """Write what has gathered in it. One at a time: what is said of a handout must be written
        in the order it was said."""
        with self._flushing:
            while ledger.dirty:
                try:
                    for statements in self.ledgers[ledger.partition].collect():
                        self._say(ledger.partition, statements)
                except BaseException:
                    log.exception("markers were not written")
                    raise

    def _say(
        self, partition: int, statements: list[Statement], part_of: MarkerRecord | None = None
    ) -> None:
        """Write these, in as many records as it takes."""
        try:
            value = codec.encode(marker(statements))
        except Exception as error:  # of one statement the others know nothing
            self._say_in_parts(partition, statements, error, part_of)
            return
        if len(value) > MOST_BYTES and len(statements) > 1:
            self._say_in_parts(partition, statements, None, part_of)
            return

        def too_large() -> None:
            error = QueueError("no broker takes a record of its size")
            self._say_in_parts(partition, statements, error, record)

        record = MarkerRecord(
            partition,
            value,
            lambda appended: self._heard(statements, appended),
            part_of=part_of,
            too_large=too_large,
        )
        record.settles = lambda: settled(statements)
        self._producer.write(record)

    def _say_in_parts(
        self,
        partition: int,
        statements: list[Statement],
        error: Exception | None,
        part_of: MarkerRecord | None,
    ) -> None:
        """Write them in two records, and so on; what cannot be written alone is told so."""
        if len(statements) == 1:
            log.error("a marker cannot be written", extra={"error": str(error)})
            reason = QueueError(f"not settled, it will come back: {error}")
            self._heard(statements, None, reason)
            return
        middle = len(statements) // 2
        self._say(partition, statements[:middle], part_of)
        self._say(partition, statements[middle:], part_of)

    def _heard(
        self,
        statements: list[Statement],
        appended: AppendTime | None,
        error: Exception | None = None,
    ) -> None:
        """The log has answered."""
        self._refused += reported(statements, appended, error)

    # Beats.

    def beat_within(self, lease_ms: int) -> None:
        """Beat soon enough for a lease of that length, to the end a worker counts by."""
        with self._beating:
            self._next_beat = min(self._next_beat, time.monotonic() + lease_ms / 4_000)

    def _beat(self) -> None:
        """One record for each ledger with something to keep alive."""
        now_ms = self.clock.known_ms() or 0
        for ledger in self.ledgers:
            beat = ledger.beat(now_ms)
            if beat is not None:
                self._write_beat(ledger.partition, beat)

    def _write_beat(self, partition: int, beat: Beat) -> None:
        def heard(appended: AppendTime | None) -> None:
            if appended is not None:
                beat.appended(appended)

        self.write(partition, beat.marker, heard, again=False)

    # Failing and closing.

    def _untold(self) -> int:
        """Messages settled in vain: who does not ask for the receipt is told by a flush."""
        return sum(reply.count for reply in list(self._refused) if not reply.receipt.asked)

    def tell(self) -> None:
        """Raise what could not be written and nobody asked for; once."""
        untold = self._untold()
        self._refused.clear()
        if untold:
            raise QueueError(f"{untold} {NOT_SETTLED}: it refuses them")

    def _died(self, error: BaseException) -> None:
        self._fail(
            QueueError(
                f"nothing is settled any more, for a thread died of {error!r}: connect again"
            )
        )

    def _fail(self, error: QueueError) -> None:
        """Whoever waits for the log, flushes or takes messages, now or later, is told."""
        self.failure = self.failure or error
        self.waiting.break_off(error)
        self._failed(error)

    def forked(self) -> None:
        """This is a child: what was handed out is the parent's to settle."""
        self.clock.forked()
        self.waiting.forked()

    def unwritten(self) -> int:
        """Messages that were settled here, of which the log is not known to know."""
        gathered = sum(ledger.unwritten() for ledger in self.ledgers)
        return gathered + self._producer.unwritten() + self._untold()

    def in_hands(self) -> bool:
        """Whether there is anything that may still be settled here."""
        return any(ledger.in_hands() for ledger in self.ledgers)

    def flush(self, timeout_s: float | None) -> bool:
        """Write what has gathered and wait for the log; False if it did not answer in time."""
        if self.failure is not None:
            raise self.failure
        self.flush_now()
        return self._producer.flush(timeout_s)

    def close(self) -> None:
        if self._closing:
            return
        try:
            if not self.flush(CLOSE_S):
                raise NotConnected(f"closed, but {self.unwritten()} {NOT_SETTLED}")
            self.tell()
        finally:
            self._closing = True
            self._dirty.set()
            self._flusher.join()
            self._producer.close()
            self.clock.close()
            self.waiting.break_off(NotConnected("the broker was closed before the log took it"))
