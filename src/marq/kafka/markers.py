"""Writes markers: claims at once, progress and holds coalesced over a few ms, one beat for all."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException

from marq.core import codec, names
from marq.core.marker import Claim, ClaimId, Hold, KeepAlive, Marker, Progress, Source, Step, Tick
from marq.kafka.answers import Answer, Waiting
from marq.kafka.clients import warm_producer
from marq.kafka.clock import BrokerClock
from marq.kafka.config import PUMP_LEASE_MS
from marq.kafka.flush import Batch, Item, Steps, answer, settled
from marq.kafka.lane import Lane
from marq.kafka.live import Handout, LiveClaim

log = logging.getLogger("marq.kafka")

FLUSH_S = 0.003
"""How long progress is gathered before it is written."""
_BEAT_S = PUMP_LEASE_MS / 4_000
_POLL_S = 0.1
_HANDOUTS_A_RECORD = 2_000

Report = Callable[[int | None], None]
"""Called with the append time, or None where the record can never be written."""

_FINAL = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.INVALID_MSG,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._PURGE_QUEUE,
    KafkaError._PURGE_INFLIGHT,
)


class Markers:
    """One producer for all markers of a process."""

    def __init__(self, settings: dict[str, Any], partitions: int, worker: int) -> None:
        self.clock = BrokerClock()
        self.worker = worker
        self.waiting = Waiting()
        self._settings = settings
        self._producer = warm_producer(settings)
        self._replacing = threading.Lock()
        self._dirty = threading.Event()
        self._flushing = threading.Lock()
        self._closing = False
        self.lanes = [Lane(n, self) for n in range(partitions)]
        self._next_beat = 0.0
        self._beating = threading.Lock()
        self._threads = [
            threading.Thread(target=self._report, name="marq-markers", daemon=True),
            threading.Thread(target=self._flush_when_dirty, name="marq-flusher", daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        for lane in self.lanes:
            self.write(lane, Tick(), lambda at_ms: None, again=False)  # asks what time it is

    def lane(self, topic: str, partition: int) -> Lane:
        """Where the markers of a source partition go."""
        return self.lanes[names.markers_partition(topic, partition, len(self.lanes))]

    # Writing one record.

    def write(self, lane: Lane, marker: Marker, report: Report, again: bool = True) -> None:
        """Write a marker; one whose outcome is unknown is sent again unchanged."""
        self._produce(lane, codec.encode(marker), report, again, None)

    def _produce(
        self, lane: Lane, value: bytes, report: Report, again: bool, first_ms: int | None
    ) -> None:
        sent_ms = self.clock.known_ms()

        def reported(error: KafkaError | None, message: Any) -> None:
            if error is None:
                report(self._time(lane, message, first_ms))
            elif error.code() in _FINAL or not again or self._closing:
                log.error("marker not written", extra={"error": error.str()})
                report(None)
            else:
                # Unknown: it may be in the log. Times count from the first try then.
                self._replace_if_fatal(error)
                self._produce(lane, value, report, again, first_ms or sent_ms)

        while True:
            try:
                self._producer.produce(
                    names.MARKERS, value, partition=lane.partition, on_delivery=reported
                )
                return
            except BufferError:
                time.sleep(0.01)
            except KafkaException as error:
                if error.args[0].code() in _FINAL or self._closing:
                    report(None)
                    return
                self._replace_if_fatal(error.args[0])
                time.sleep(0.05)

    def _time(self, lane: Lane, message: Any, first_ms: int | None) -> int:
        kind, at_ms = message.timestamp()
        if kind != TIMESTAMP_LOG_APPEND_TIME:
            return self.clock.now_ms()  # a duplicate the broker had already: judged by estimate
        self.clock.sample(lane.partition, at_ms)
        return min(at_ms, first_ms) if first_ms is not None else int(at_ms)

    def _replace_if_fatal(self, error: KafkaError) -> None:
        """An idempotent producer that lost its place is of no more use."""
        if not error.fatal():
            return
        with self._replacing:
            old, self._producer = self._producer, warm_producer(self._settings)
        old.purge()
        log.warning("markers producer replaced", extra={"error": error.str()})

    # Claims.

    def claim(self, live: LiveClaim, answered: Callable[[], None]) -> None:
        """Write a claim; `answered` is called when the log has it, or never will."""

        def reported(at_ms: int | None) -> None:
            if at_ms is None:
                live.failed = True
            else:
                live.lapse_ms = at_ms + live.claim.lease_ms
            live.acknowledged = True
            answered()

        self.write(live.lane, live.claim, reported)

    def keep(self, live: LiveClaim) -> None:
        """Beat for it from now on: its offset is committed."""
        with live.lane.lock:
            live.lane.claims[live.claim.id.sequence] = live

    def open_messages(self, queue: str) -> int:
        """Messages of the queue that are handed out and not settled."""
        claims = (live for lane in self.lanes for live in list(lane.claims.values()))
        return sum(live.left - live.unbegun for live in claims if live.claim.source.queue == queue)

    def end_one(self, source: Source, offset: int, sequence: int) -> Answer[bool]:
        """Claim and end one message, wherever its consumers are."""
        lane, claim = self.lane(source.queue, source.partition), ClaimId(self.worker, sequence)
        answer: Answer[bool] = Answer(self.waiting)
        runs = ((offset, 1),)
        self.write(lane, Claim(claim, source, offset, runs, PUMP_LEASE_MS), lambda at_ms: None)
        ended = Progress((Step(claim, 1),))
        self.write(lane, ended, lambda at_ms: answer.fill(at_ms is not None))
        return answer

    # Progress, coalesced.

    def _flush_when_dirty(self) -> None:
        while not self._closing:
            self._dirty.wait(max(0.0, min(self._next_beat - time.monotonic(), _POLL_S)))
            self.clock.tick()
            if self._dirty.is_set():
                time.sleep(FLUSH_S)
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
        with lane.lock:
            for _ in range(min(len(lane.dirty), _HANDOUTS_A_RECORD)):
                batch.take(lane.dirty.popleft())
        # Begun, held, begun again, in this order: a begun that came after the hold that settles
        # it would take the message back into a lease.
        self._write_progress(lane, batch.first)
        if batch.held:
            hold = Hold(tuple(batch.held))
            self.write(lane, hold, lambda at_ms: self._held(lane, batch.holding, at_ms))
        self._write_progress(lane, batch.rest)

    def _write_progress(self, lane: Lane, steps: Steps) -> None:
        if steps.items:
            progress = Progress(steps.in_order())
            self.write(lane, progress, lambda at_ms: self._progressed(lane, steps.items, at_ms))

    def _progressed(self, lane: Lane, items: list[Item], at_ms: int | None) -> None:
        for item in items:
            handout = item.handout
            in_time = at_ms is not None and handout.judge(at_ms)
            self._began(item, at_ms)
            if item.ended:
                with lane.lock:
                    settled(lane, handout, item.ended)
                answer(item.receipt, handout, in_time)

    def _began(self, item: Item, at_ms: int | None) -> None:
        handout = item.handout
        if at_ms is not None and (not item.begun or at_ms < handout.begin_by()):
            handout.known = max(handout.known, item.begun_taken)
        elif item.begun:
            handout.give_up()  # it came too late: the message may be on its way elsewhere
        if item.begun and handout.begin is not None:
            answer(handout.begin, handout, handout.begun_known)

    def _held(self, lane: Lane, items: list[Item], at_ms: int | None) -> None:
        for item in items:
            in_time = at_ms is not None and item.handout.judge(at_ms)
            with lane.lock:
                settled(lane, item.handout, item.ended)
            answer(item.receipt, item.handout, in_time)

    # Beats.

    def beat_within(self, lease_ms: int) -> None:
        """Beat soon enough for a lease of that length, to the end a worker counts by."""
        with self._beating:
            self._next_beat = min(self._next_beat, time.monotonic() + lease_ms / 4_000)

    def _beat(self) -> None:
        """One record for each lane with live claims."""
        for lane in self.lanes:
            with lane.lock:
                claims = [live for live in lane.claims.values() if live.needs_beats]
                kept = list(lane.kept)
            if claims:
                self._write_beat(lane, claims, [h for h in kept if h.begun_known])
            for handout in kept:
                self.beat_within(handout.lease_ms - handout.ahead_ms)

    def _write_beat(self, lane: Lane, claims: list[LiveClaim], kept: list[Handout]) -> None:
        beat = KeepAlive(self.worker, tuple(sorted(live.claim.id.sequence for live in claims)))

        def reported(at_ms: int | None) -> None:
            if at_ms is None:
                return
            for live in claims:
                live.beaten(at_ms)
            for handout in kept:
                handout.beaten(at_ms)

        self.write(lane, beat, reported, again=False)

    # Closing.

    def flush(self, timeout_s: float | None) -> bool:
        """Write what has gathered and wait for the log; False if it did not answer in time."""
        self.flush_now()
        return self._producer.flush(-1 if timeout_s is None else timeout_s) == 0

    def close(self) -> None:
        if not self._closing:
            self.flush(10)
            self._closing = True
            self._dirty.set()
            for thread in self._threads:
                thread.join()

    def _report(self) -> None:
        while not self._closing:
            self._producer.poll(_POLL_S)
