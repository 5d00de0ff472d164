"""The stages of a queue's messages: poll -> claim -> commit -> inbox, each only after the one
before is in the log.

Crash windows, and why none of them loses a message:
- after poll, before the claim is in the log: nothing was committed, the group polls it again;
- claim in the log, not committed: polled and claimed again by another; claims of one offset
  accumulate, an end under either ends both;
- committed, not handed out: the claim is open and not begun; it lapses and comes back, uncounted;
- handed out, handler done, ack not in the log: the lease lapses and it comes back, counted.
The other order, commit before claim, would lose what dies in between.

Claims and commits are under way meanwhile: polling goes on while the log answers, and it is in
polling that the answers to commits are heard.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from marq.core.fate.settling import PUMP_LEASE_MS
from marq.core.markers import claimed
from marq.core.markers.claimed import ClaimedRuns
from marq.core.markers.marker import Claim, ClaimId, Source
from marq.kafka.client import codes
from marq.kafka.cluster.queue_topic import QueueTopic
from marq.kafka.leasing.live import LiveClaim
from marq.kafka.marking.markers import Markers
from marq.kafka.receiving.inbox import KafkaInbox
from marq.kafka.receiving.prefetch import Prefetch
from marq.kafka.receiving.reading import Reading
from marq.kafka.receiving.segments import segments
from marq.kafka.receiving.uncommitted import Uncommitted

log = logging.getLogger("marq.kafka")

_REVOKE_S = 3.0
_IDLE_POLL_S, _BUSY_POLL_S = 0.1, 0.001
_FULL_S = 1.0
"""How long a full inbox is waited for before partitions are paused: a pause throws away what
librdkafka has fetched."""


class PumpParts(NamedTuple):
    """What the stages of one queue are made of."""

    topic: QueueTopic
    settings: dict[str, Any]
    markers: Markers
    inbox: KafkaInbox
    sequence: count[int]
    look: Callable[[], object]
    """Has a look at the queue's definition; `ConfigError` if it was deleted."""


class Stages:
    """One membership in a queue's group, from joining to leaving; used by one thread at a time."""

    def __init__(self, parts: PumpParts, prefetch: Prefetch, joined: threading.Event) -> None:
        topic, settings, self._markers, self._inbox, self._sequence, _ = parts
        self._queue = topic.name
        self._prefetch = prefetch
        self._joined = joined
        """Set once the group has given us partitions, or said that there are none left."""
        self._uncommitted = Uncommitted()
        self._answered = threading.Event()
        """Some claim was answered since the last look."""
        self._refused: KafkaError | None = None
        """Why the last commit failed: a rebalance may wait to be served."""
        self._stopping = False
        self._reading = Reading(topic, {**settings, "on_commit": self._committed})
        self._consumer = self._reading.consumer
        self._consumer.subscribe(
            [self._queue], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def stop(self) -> None:
        """Wait for nothing any more; by any thread."""
        self._stopping = True
        self._answered.set()

    def leave(self) -> None:
        """Commit what was claimed; nothing else of it is ours."""
        self._settle_pending(self._uncommitted.partitions)
        self._drop(self._uncommitted.partitions)

    def close(self) -> None:
        self._consumer.close()
        del self._consumer, self._reading  # the consumer refers to this, and would outlive its use

    def _assigned(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        for place in partitions:
            self._uncommitted.assign(place.partition)
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

    def work(self) -> None:
        """One round, by a thread that has nothing else to do: it waits for messages and room."""
        room = self._prefetch.room(self._inbox, self._uncommitted.messages())
        # With no room there is no polling, and without polling an answer would not be heard. Where
        # little comes in, it would be heard late: in the next poll but one.
        waits = room <= 0 or not self._prefetch.is_fast
        self._commit_answered(wait=waits)
        in_flight = self._uncommitted.messages()
        under_way = waits and in_flight and self._refused is None
        if under_way and (self._answered.wait(_IDLE_POLL_S) or room <= 0):
            return
        if room <= 0 and self._uncommitted.partitions:
            room = self._wait_for_room()
        self._reading.pause(room <= 0)
        self._poll(max(1, room), _BUSY_POLL_S if in_flight else _IDLE_POLL_S)

    def work_in_passing(self, waits: bool) -> bool:
        """One round, by a taker: it waits for nothing but, if it has none and `waits`, a moment for
        what is under way; whether more may come of another round."""
        self._commit_answered(wait=False)
        in_flight = self._uncommitted.messages()
        room = self._prefetch.chunk(self._inbox, in_flight, waits)
        if room <= 0:
            return False
        self._reading.pause(False)
        self._poll(room, _BUSY_POLL_S if in_flight and waits else 0)
        return self._uncommitted.messages() > 0

    def _poll(self, limit: int, patience_s: float) -> None:
        batch = self._reading.poll(limit, patience_s)
        if batch:
            self._prefetch.polled(batch)
            self._claim(batch)

    def _wait_for_room(self) -> int:
        until = time.monotonic() + _FULL_S
        with self._inbox.lock:
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
        end = claimed.end(runs)
        claim = Claim(
            ClaimId(self._markers.worker, next(self._sequence)),
            Source(self._reading.topic_id, partition, self._queue, "", 0),
            self._uncommitted.start(partition, self._reading.start(partition, runs[0][0]), end),
            runs,
            PUMP_LEASE_MS,
        )
        return self._markers.ledger(self._queue, partition).claim(claim, messages, end)

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
        log.error("claim failed: polling it again", extra={"queue": self._queue})
        self._consumer.seek(TopicPartition(self._queue, failed.partition, failed.start))

    def _commit(self, ends: dict[int, int], wait: bool) -> None:
        offsets = [TopicPartition(self._queue, number, end) for number, end in ends.items()]
        try:
            if wait:
                self._committed(None, self._consumer.commit(offsets=offsets, asynchronous=False))
            else:
                self._consumer.commit(offsets=offsets, asynchronous=True)
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
        self._reading.refuse_if_denied(refused)
        if not codes.is_stale(refused):
            log.info("offsets not committed", extra={"queue": self._queue, "error": refused.str()})
        time.sleep(0.01)
