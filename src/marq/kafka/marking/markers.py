"""Writes markers: claims at once, progress and holds coalesced over a few ms, one beat for all."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from marq import threads
from marq.core import names
from marq.core.markers import codec
from marq.core.markers.marker import KeepAlive, Marker, Tick
from marq.errors import NotConnected, QueueError
from marq.kafka.client.answers import Answer, Waiting
from marq.kafka.client.clock import BrokerClock
from marq.kafka.client.config import PUMP_LEASE_MS
from marq.kafka.leasing.handout import Handout
from marq.kafka.leasing.ledger import Lane
from marq.kafka.leasing.live import LiveClaim
from marq.kafka.marking.flush import Batch, Said, marker, settled
from marq.kafka.marking.marker_producer import MarkerProducer, Record, Report, Taken

CLOSE_S = 10.0
"""How long closing waits for the log."""
FLUSH_S = 0.003
"""How long progress is gathered before it is written."""
_BEAT_S = PUMP_LEASE_MS / 4_000
_POLL_S = 0.1
_HANDOUTS_A_RECORD = 2_000
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
        self.waiting = Waiting()
        self.failure: QueueError | None = None
        """Why nothing can be settled here any more."""
        self._failed = failed
        self._producer = MarkerProducer(settings, hold_log[0], self.clock, self._fail)
        self._dirty = threading.Event()
        self._flushing = threading.Lock()
        self._closing = False
        self.lanes = [Lane(n, self) for n in range(hold_log[1])]
        self._next_beat = 0.0
        self._beating = threading.Lock()
        self._refused: list[tuple[Answer[None], int]] = []
        """What was settled in vain, with the number of messages, until a flush has told of it."""
        self._flusher = threads.start(self._flush_when_dirty, "marq-flusher", self._died)
        for lane in self.lanes:
            self.write(lane, Tick(), lambda taken: None, again=False)  # asks what time it is

    def lane(self, topic: str, partition: int) -> Lane:
        """Where the markers of a source partition go."""
        return self.lanes[names.markers_partition(topic, partition, len(self.lanes))]

    def write(self, lane: Lane, marker: Marker, report: Report, again: bool = True) -> None:
        """Write a marker; one whose outcome is unknown is sent again unchanged."""
        self._producer.write(Record(lane.partition, codec.encode(marker), report, again=again))

    # Claims.

    def claim(self, live: LiveClaim, answered: Callable[[], None]) -> None:
        """Write a claim; `answered` is called when the log has it, or never will."""

        def reported(taken: Taken | None) -> None:
            if taken is None:
                live.failed = True
            else:
                live.lapse_ms = taken.earliest_ms + live.claim.lease_ms
            live.acknowledged = True
            answered()

        self.write(live.lane, live.claim, reported)

    def keep(self, live: LiveClaim) -> None:
        """Beat for it from now on: its offset is committed."""
        with live.lane.lock:
            live.keep()

    def open_messages(self, queue: str) -> int:
        """Messages of the queue that are handed out and not settled."""
        claims = (live for lane in self.lanes for live in list(lane.claims.values()))
        return sum(live.left - live.unbegun for live in claims if live.claim.source.queue == queue)

    def append(self, partition: int, marker: Marker) -> Answer[bool]:
        """Write a marker and answer whether the log has it, for whoever needs no more of it."""
        answer: Answer[bool] = Answer(self.waiting)
        lane = self.lanes[partition]
        self.write(lane, marker, lambda taken: answer.fill(taken is not None))
        return answer

    # Progress, coalesced.

    def _flush_when_dirty(self) -> None:
        while not self._closing:
            self._dirty.wait(max(0.0, min(self._next_beat - time.monotonic(), _POLL_S)))
            self.clock.tick()
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
        for lane in self.lanes:
            self.flush_lane(lane)

    def flush_lane(self, lane: Lane) -> None:
        """Write what has gathered in a lane. One at a time: what is said of a handout must be
        written in the order it was said."""
        with self._flushing:
            while lane.dirty:
                self._flush(lane)

    def _flush(self, lane: Lane) -> None:
        batch = Batch()
        try:
            with lane.lock:
                for _ in range(min(len(lane.dirty), _HANDOUTS_A_RECORD)):
                    batch.take(lane.dirty.popleft())
            for said in batch.said():
                self._say(lane, said)
        except BaseException as error:
            log.exception("markers were not written")
            batch.fail(lane, error)  # what was taken is said by nobody else
            raise

    def _say(self, lane: Lane, said: list[Said], part_of: Record | None = None) -> None:
        """Write these statements, in as many records as it takes."""
        try:
            value = codec.encode(marker(said))
        except Exception as error:  # of one statement the others know nothing
            self._say_in_parts(lane, said, error, part_of)
            return
        if len(value) > MOST_BYTES and len(said) > 1:
            self._say_in_parts(lane, said, None, part_of)
            return

        def reported(taken: Taken | None) -> None:
            for each in said:
                each.heard(lane, taken)

        def too_large() -> None:
            error = QueueError("no broker takes a record of its size")
            self._say_in_parts(lane, said, error, record)

        record = Record(lane.partition, value, reported, part_of=part_of, too_large=too_large)
        record.settles = lambda: settled(said)
        self._producer.write(record)

    def _say_in_parts(
        self, lane: Lane, said: list[Said], error: Exception | None, part_of: Record | None
    ) -> None:
        """Write them in two records, and so on; what cannot be written alone is told so."""
        if len(said) == 1:
            log.error("a marker cannot be written", extra={"error": str(error)})
            said[0].heard(lane, None, QueueError(f"not settled, it will come back: {error}"))
            return
        middle = len(said) // 2
        self._say(lane, said[:middle], part_of)
        self._say(lane, said[middle:], part_of)

    # Beats.

    def beat_within(self, lease_ms: int) -> None:
        """Beat soon enough for a lease of that length, to the end a worker counts by."""
        with self._beating:
            self._next_beat = min(self._next_beat, time.monotonic() + lease_ms / 4_000)

    def _beat(self) -> None:
        """One record for each lane with live claims."""
        now_ms = self.clock.known_ms() or 0
        for lane in self.lanes:
            with lane.lock:
                lane.forget_lapsed(now_ms)
                claims = [live for live in lane.claims.values() if live.needs_beats]
                kept = list(lane.kept)
            if claims:
                self._write_beat(lane, claims, [h for h in kept if h.begun_known])
            for handout in kept:
                self.beat_within(handout.lease_ms - handout.ahead_ms)

    def _write_beat(self, lane: Lane, claims: list[LiveClaim], kept: list[Handout]) -> None:
        beat = KeepAlive(self.worker, tuple(sorted(live.claim.id.sequence for live in claims)))

        def reported(taken: Taken | None) -> None:
            if taken is None:
                return
            for live in claims:
                live.beaten(taken)
            for handout in kept:
                handout.beaten(taken)

        self.write(lane, beat, reported, again=False)

    # Failing and closing.

    def refused(self, receipt: Answer[None], count: int) -> None:
        """So many messages were settled and the log never takes that: who does not ask for the
        receipt is told by a flush."""
        self._refused.append((receipt, count))

    def _untold(self) -> int:
        return sum(count for receipt, count in list(self._refused) if not receipt.asked)

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
        waiting = [handout for lane in self.lanes for handout in list(lane.dirty)]
        written_soon = sum(handout.unwritten for handout in waiting) + self._producer.unwritten()
        return written_soon + self._untold()

    def in_hands(self) -> bool:
        """Whether there is anything that may still be settled here."""
        claims = [live for lane in self.lanes for live in list(lane.claims.values())]
        return any(live.left > live.unbegun for live in claims)

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
