"""The pump: poll -> claim -> commit -> inbox, each step only after the one before is in the log.

Crash windows, and why none of them loses a message:
- after poll, before the claim is in the log: nothing was committed, the group polls it again;
- claim in the log, not committed: polled and claimed again by another; claims of one offset
  accumulate, an end under either ends both;
- committed, not handed out: the claim is open and not begun; it lapses and comes back, uncounted;
- handed out, handler done, ack not in the log: the lease lapses and it comes back, counted.
The other order, commit before claim, would lose what dies in between.

One thread polls and commits: librdkafka's consumer is locked while it polls, and a commit from
another thread waits for ever where nothing comes in. Claims and commits are under way meanwhile:
polling goes on while the log answers, and it is in polling that the answers to commits are heard.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from itertools import count
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from marq import threads
from marq.core.markers import claimed
from marq.core.markers.claimed import ClaimedRuns
from marq.core.markers.marker import Claim, ClaimId, Source
from marq.errors import NotConnected, QueueError
from marq.kafka.client import codes
from marq.kafka.client.config import PUMP_LEASE_MS
from marq.kafka.cluster.queue_topic import QueueTopic
from marq.kafka.leasing.live import LiveClaim
from marq.kafka.marking.markers import Markers
from marq.kafka.receiving.inbox import KafkaInbox
from marq.kafka.receiving.prefetch import Prefetch
from marq.kafka.receiving.reading import Reading
from marq.kafka.receiving.segments import segments
from marq.kafka.receiving.uncommitted import Uncommitted

log = logging.getLogger("marq.kafka")

IDLE_S = 15.0
"""A process that takes nothing for so long leaves the group, so that others get its messages."""
_REVOKE_S = 3.0
_LOOK_S = 1.0
_IDLE_POLL_S, _BUSY_POLL_S = 0.1, 0.001
_FULL_S = 1.0
"""How long a full inbox is waited for before partitions are paused: a pause throws away what
librdkafka has fetched."""


class Pump:
    """One queue's consumer in this process."""

    def __init__(
        self,
        topic: QueueTopic,
        settings: dict[str, Any],
        markers: Markers,
        inbox: KafkaInbox,
        sequence: count[int],
    ) -> None:
        self.queue = queue = topic.name
        self._topic = topic
        self._settings = {**settings, "on_commit": self._committed}
        self._markers = markers
        self._inbox = inbox
        self._sequence = sequence
        self._prefetch = Prefetch()
        self._reading: Reading | None = None
        """None: not in the group."""
        self._uncommitted = Uncommitted()
        self._answered = threading.Event()
        """Some claim was answered since the pump looked last."""
        self._refused: KafkaError | None = None
        """Why the last commit failed: a rebalance may wait to be served."""
        self._looked_at = time.monotonic()
        self._joined = threading.Event()
        self._stopping = False
        self._thread = threads.make(self._run, f"marq-pump-{queue}", self._died)

    def start(self) -> None:
        self._thread.start()

    @property
    def joined(self) -> bool:
        return self._joined.is_set()

    def wait_until_joined(self, timeout_s: float) -> bool:
        """Wait until the group has given us partitions, or said that there are none left; or until
        receiving has failed."""
        return self._joined.wait(timeout_s)

    def stop(self, timeout_s: float | None = None) -> None:
        """Give back what is not begun and leave the group; again is harmless."""
        self._stopping = True
        self._answered.set()
        with self._inbox.changed:
            self._inbox.changed.notify_all()
        if self._thread.ident and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._join_when_wanted()
                if self._reading is not None:
                    self._pump(self._reading)
        except QueueError as error:
            log.error("pump stopped", extra={"queue": self.queue, "error": str(error)})
            self._failed(error)
        except BaseException as error:
            self._died(error)  # before leaving: that may take a while
            raise
        finally:
            self._leave()
            self._settings = {}  # they refer to this pump, which would outlive its use

    def _died(self, error: BaseException) -> None:
        """Whoever takes messages is told."""
        self._failed(QueueError(f"receiving from {self.queue!r} failed: {error}"))

    def _failed(self, error: QueueError) -> None:
        self._inbox.fail(error)
        self._joined.set()  # there is nothing to wait for any more

    # Joining and leaving the group.

    def _join_when_wanted(self) -> None:
        if self._reading is None:
            with self._inbox.changed:
                self._inbox.changed.wait_for(
                    lambda: self._inbox.takers or self._stopping, timeout=_IDLE_POLL_S
                )
                wanted = self._inbox.takers and not self._stopping
            if wanted:
                self._join()
            return
        if time.monotonic() > self._looked_at + _LOOK_S:
            self._looked_at = time.monotonic()
            self._inbox.definition()  # a deleted queue is an error: leave, others may create it
        if self._idle():
            log.info("left the group: nobody takes messages", extra={"queue": self.queue})
            self._leave()

    def _idle(self) -> bool:
        inbox = self._inbox
        return not inbox.takers and time.monotonic() - inbox.taken_at > IDLE_S

    def _join(self) -> None:
        with contextlib.suppress(NotConnected):  # later, when a broker answers
            self._reading = Reading(self._topic, self._settings)
            self._reading.consumer.subscribe(
                [self.queue], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
            )

    def _leave(self) -> None:
        if self._reading is None:
            return
        self._joined.clear()
        try:
            self._settle_pending(self._uncommitted.partitions)
            self._drop(self._uncommitted.partitions)
            self._inbox.give_back_waiting()
            self._markers.flush(10)
        except QueueError as error:
            log.warning("not given back", extra={"queue": self.queue, "error": str(error)})
        finally:
            reading, self._reading = self._reading, None
            reading.consumer.close()

    def _assigned(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        for place in partitions:
            self._uncommitted.assign(place.partition)
        assert self._reading is not None
        self._reading.assign(partitions)
        self._joined.set()

    def _revoked(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        numbers = [place.partition for place in partitions]
        self._settle_pending(numbers)
        self._drop(numbers)
        consumer.incremental_unassign(partitions)

    def _lost(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        self._drop([place.partition for place in partitions])
        consumer.incremental_unassign(partitions)

    def _settle_pending(self, partitions: list[int]) -> None:
        """Wait, not for ever, for claims under way, and commit them."""
        until = time.monotonic() + _REVOKE_S
        while self._uncommitted.any(partitions):
            self._commit_answered(wait=True)
            if time.monotonic() > until:
                return
            self._answered.wait(0.05)

    def _drop(self, partitions: list[int]) -> None:
        """Claims not committed by now are not ours: not handed out, not beaten, not ended."""
        self._uncommitted.drop(partitions)

    # Polling and claiming.

    def _pump(self, reading: Reading) -> None:
        room = self._prefetch.room(self._inbox, self._uncommitted.messages())
        # With no room there is no polling, and without polling an answer would not be heard.
        self._commit_answered(wait=room <= 0)
        in_flight = self._uncommitted.messages()
        if room <= 0 and in_flight and self._refused is None:
            self._answered.wait(_IDLE_POLL_S)
            return
        if room <= 0 and self._uncommitted.partitions:
            room = self._wait_for_room()
        reading.pause(room <= 0)
        batch = reading.poll(max(1, room), _BUSY_POLL_S if in_flight else _IDLE_POLL_S)
        if batch:
            self._prefetch.polled(batch)
            self._claim(batch)

    def _wait_for_room(self) -> int:
        until = time.monotonic() + _FULL_S
        with self._inbox.changed:
            while time.monotonic() < until and not self._stopping:
                room = self._prefetch.room(self._inbox, 0)
                if room > 0:
                    return room
                self._inbox.changed.wait(0.01)
        return 0

    def _claim(self, batch: list[Any]) -> None:
        for partition, runs, messages in segments(batch):
            if partition not in self._uncommitted:
                continue  # revoked while it was polled: someone else has it
            live = self._live(partition, runs, messages)
            self._uncommitted.add(live)
            self._markers.claim(live, self._answered.set)

    def _live(self, partition: int, runs: ClaimedRuns, messages: list[Any]) -> LiveClaim:
        assert self._reading is not None
        end = claimed.end(runs)
        claim = Claim(
            ClaimId(self._markers.worker, next(self._sequence)),
            Source(self._reading.topic_id, partition, self.queue, "", 0),
            self._uncommitted.start(partition, self._reading.start(partition, runs[0][0]), end),
            runs,
            PUMP_LEASE_MS,
        )
        return self._markers.ledger(self.queue, partition).claim(claim, messages, end)

    # Committing.

    def _commit_answered(self, wait: bool) -> None:
        """Commit what the log has taken; what is committed goes to the inbox."""
        if self._refused is not None:
            self._wait_after(self._refused)
        self._answered.clear()
        for failed in list(self._uncommitted.failed()):
            self._void_from(failed)
        self._refused = None
        ends = self._uncommitted.ends(again=wait)
        if ends:
            self._commit(ends, wait)

    def _void_from(self, failed: LiveClaim) -> None:
        """A claim that failed voids the later ones."""
        self._uncommitted.void_from(failed)
        log.error("claim failed: polling it again", extra={"queue": self.queue})
        assert self._reading is not None
        self._reading.consumer.seek(TopicPartition(self.queue, failed.partition, failed.start))

    def _commit(self, ends: dict[int, int], wait: bool) -> None:
        assert self._reading is not None
        consumer = self._reading.consumer
        offsets = [TopicPartition(self.queue, number, end) for number, end in ends.items()]
        try:
            if wait:
                self._committed(None, consumer.commit(offsets=offsets, asynchronous=False))
            else:
                consumer.commit(offsets=offsets, asynchronous=True)
                self._uncommitted.ask(ends)
        except KafkaException as error:
            self._committed(error.args[0], [])

    def _committed(self, error: KafkaError | None, places: list[TopicPartition]) -> None:
        """What became of a commit; called by librdkafka in polling, too."""
        errors = [error, *(place.error for place in places)]
        self._refused = next((error for error in errors if error is not None), None)
        if self._refused is not None:
            self._uncommitted.refused()
            return
        for place in places:
            for live in self._uncommitted.committed(place.partition, place.offset):
                live.committed()
                self._inbox.add(live)

    def _wait_after(self, refused: KafkaError) -> None:
        """A stale epoch or a broker that is away: again, while the partition is ours. A rebalance
        is served by polling, so go on there first."""
        if self._reading is not None:
            self._reading.refuse_if_denied(refused)
        if not codes.is_stale(refused):
            log.info("offsets not committed", extra={"queue": self.queue, "error": refused.str()})
        time.sleep(0.01)
