"""The pump: poll -> claim -> commit -> inbox, each step only after the one before is in the log.

Crash windows, and why none of them loses a message:
- after poll, before the claim is in the log: nothing was committed, the group polls it again;
- claim in the log, not committed: polled and claimed again by another; claims of one offset
  accumulate, an end under either ends both;
- committed, not handed out: the claim is open and not begun; it lapses and comes back, uncounted;
- handed out, handler done, ack not in the log: the lease lapses and it comes back, counted.
The other order, commit before claim, would lose what dies in between.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from marq.core.marker import Claim, ClaimId, Source
from marq.errors import ConfigError, QueueError
from marq.kafka.config import PUMP_LEASE_MS
from marq.kafka.inbox import KafkaInbox
from marq.kafka.live import LiveClaim
from marq.kafka.markers import Markers
from marq.kafka.prefetch import Prefetch
from marq.kafka.segments import segments

log = logging.getLogger("marq.kafka")

IDLE_S = 15.0
"""A process that takes nothing for so long leaves the group, so that others get its messages."""
_REVOKE_S = 3.0
_POLL_S = 0.1
_FULL_S = 1.0
"""How long a full inbox is waited for before partitions are paused: a pause throws away what
librdkafka has fetched."""

_STALE = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.FENCED_INSTANCE_ID,
)
_GONE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_ID)
_DENIED = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
)


class Pump:
    """One queue's consumer in this process."""

    def __init__(
        self,
        queue: str,
        topic_id: bytes,
        settings: dict[str, Any],
        markers: Markers,
        inbox: KafkaInbox,
        sequence: count[int],
    ) -> None:
        self.queue = queue
        self._topic_id = topic_id
        self._settings = settings
        self._markers = markers
        self._inbox = inbox
        self._sequence = sequence
        self._prefetch = Prefetch()
        self._consumer: Consumer | None = None
        self._lock = threading.Condition()
        self._pending: dict[int, deque[LiveClaim]] = {}
        """By partition of ours: claims in the order polled, not yet committed."""
        self._positions: dict[int, int] = {}
        self._claimed: SimpleQueue[LiveClaim | None] = SimpleQueue()
        self._paused = False
        self._joined = threading.Event()
        self._stopping = False
        self._pumping = threading.Thread(target=self._run, name=f"marq-pump-{queue}", daemon=True)
        self._committing = threading.Thread(
            target=self._commit, name=f"marq-commit-{queue}", daemon=True
        )

    def start(self) -> None:
        self._pumping.start()
        self._committing.start()

    @property
    def joined(self) -> bool:
        return self._joined.is_set()

    def wait_until_joined(self, timeout_s: float) -> bool:
        """Wait until the group has given us partitions, or said that there are none left."""
        return self._joined.wait(timeout_s)

    def stop(self) -> None:
        """Give back what is not begun and leave the group; again is harmless."""
        if self._stopping:
            return
        self._stopping = True
        with self._inbox.changed:
            self._inbox.changed.notify_all()
        if self._pumping.ident:
            self._pumping.join()
            self._claimed.put(None)
            self._committing.join()

    # The pump's own thread.

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._join_when_wanted()
                if self._consumer is not None:
                    self._pump()
        except QueueError as error:
            log.error("pump stopped", extra={"queue": self.queue, "error": str(error)})
            self._inbox.fail(error)
        except BaseException as error:
            log.exception("pump failed", extra={"queue": self.queue})
            self._inbox.fail(QueueError(f"receiving from {self.queue!r} failed: {error}"))
        finally:
            self._leave()

    def _join_when_wanted(self) -> None:
        if self._consumer is None:
            with self._inbox.changed:
                self._inbox.changed.wait_for(
                    lambda: self._inbox.takers or self._stopping, timeout=_POLL_S
                )
                wanted = self._inbox.takers and not self._stopping
            if wanted:
                self._join()
        elif self._idle():
            log.info("left the group: nobody takes messages", extra={"queue": self.queue})
            self._leave()

    def _idle(self) -> bool:
        inbox = self._inbox
        return not inbox.takers and time.monotonic() - inbox.taken_at > IDLE_S

    def _join(self) -> None:
        self._consumer = Consumer(self._settings)
        self._consumer.subscribe(
            [self.queue], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def _leave(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is None:
            return
        self._joined.clear()
        try:
            self._settle_pending(list(self._pending))
            self._inbox.give_back_waiting()
            self._markers.flush(10)
        finally:
            self._drop(list(self._pending))
            consumer.close()

    def _pump(self) -> None:
        room = self._prefetch.room(self._inbox, self._in_flight())
        if room <= 0 and self._pending:
            room = self._wait_for_room()
        if room > 0:
            self._resume()
        else:
            self._pause()
        self._poll(max(1, room))

    def _poll(self, limit: int) -> None:
        assert self._consumer is not None
        batch = self._check(self._consumer.consume(limit, _POLL_S))
        if batch:
            self._prefetch.polled(batch)
            self._claim(batch)

    def _wait_for_room(self) -> int:
        until = time.monotonic() + _FULL_S
        with self._inbox.changed:
            while time.monotonic() < until and not self._stopping:
                room = self._prefetch.room(self._inbox, self._in_flight())
                if room > 0:
                    return room
                self._inbox.changed.wait(0.01)
        return 0

    def _pause(self) -> None:
        """Fetch nothing more; polling goes on, for rebalances are served in it."""
        if not self._paused and self._consumer is not None:
            self._paused = True
            self._consumer.pause(self._consumer.assignment())

    def _resume(self) -> None:
        if self._paused and self._consumer is not None:
            self._paused = False
            self._consumer.resume(self._consumer.assignment())

    def _in_flight(self) -> int:
        """Messages polled and not yet in the inbox."""
        return sum(len(live.messages) for queue in self._pending.values() for live in queue)

    def _check(self, batch: list[Any]) -> list[Any]:
        """The messages of a batch; what the consumer has to say otherwise is acted on."""
        good = [message for message in batch if message.error() is None]
        if len(good) < len(batch):
            for message in batch:
                if message.error() is not None:
                    self._failed(message)
        return good

    def _failed(self, message: Any) -> None:
        error = message.error()
        code = error.code()
        if code in _GONE:
            raise ConfigError(f"queue {self.queue!r} was deleted: its worker has nothing to do")
        if code in _DENIED:
            raise ConfigError(f"the cluster refuses reading {self.queue!r}: {error.str()}")
        if code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            self._seek_to_start(message.partition())
        else:
            log.info("consumer", extra={"queue": self.queue, "error": error.str()})

    def _seek_to_start(self, partition: int) -> None:
        """Nothing unacked lies below the log's start: go on there, and say so."""
        assert self._consumer is not None
        place = TopicPartition(self.queue, partition)
        start, _ = self._consumer.get_watermark_offsets(place, timeout=10)
        log.warning(
            "no usable offset: starting at the log's start",
            extra={"queue": self.queue, "partition": partition, "offset": start},
        )
        self._consumer.seek(TopicPartition(self.queue, partition, start))

    def _claim(self, batch: list[Any]) -> None:
        for partition, runs, messages in segments(batch):
            with self._lock:
                pending = self._pending.get(partition)
                if pending is None:
                    continue  # revoked meanwhile
                first, end = runs[0][0], runs[-1][0] + runs[-1][1]
                start = min(first, self._positions.get(partition, first))
                self._positions[partition] = end
                live = self._live(partition, start, runs, messages, end)
                pending.append(live)
            self._markers.claim(live, self._claimed.put)

    def _live(
        self, partition: int, start: int, runs: Any, messages: list[Any], end: int
    ) -> LiveClaim:
        claim = Claim(
            ClaimId(self._markers.worker, next(self._sequence)),
            Source(self._topic_id, partition, self.queue, "", 0),
            start,
            runs,
            PUMP_LEASE_MS,
        )
        return LiveClaim(claim, messages, end, self._markers.lane(self.queue, partition))

    # Rebalances, served inside consume.

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        with self._lock:
            for place in partitions:
                self._pending[place.partition] = deque()
                self._positions.pop(place.partition, None)
        consumer.incremental_assign(partitions)
        self._joined.set()

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        numbers = [place.partition for place in partitions]
        self._settle_pending(numbers)
        self._drop(numbers)
        consumer.incremental_unassign(partitions)

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._drop([place.partition for place in partitions])
        consumer.incremental_unassign(partitions)

    def _settle_pending(self, partitions: list[int]) -> None:
        """Wait, not for ever, for claims and commits under way."""
        with self._lock:
            self._lock.wait_for(
                lambda: not any(self._pending.get(number) for number in partitions), _REVOKE_S
            )

    def _drop(self, partitions: list[int]) -> None:
        """Claims not committed by now are not ours: not handed out, not beaten, not ended."""
        with self._lock:
            for number in partitions:
                self._pending.pop(number, None)
                self._positions.pop(number, None)

    # The committer's thread: synchronous commits, for callbacks are only served inside poll.

    def _commit(self) -> None:
        while (live := self._claimed.get()) is not None:
            claims = [live]
            try:
                while (more := self._claimed.get_nowait()) is not None:
                    claims.append(more)
            except Empty:
                pass
            else:
                self._claimed.put(None)
            self._commit_ready({each.partition for each in claims})

    def _commit_ready(self, partitions: set[int]) -> None:
        ready = {number: self._ready(number) for number in partitions}
        ready = {number: claims for number, claims in ready.items() if claims}
        if not ready or not self._commit_offsets(ready):
            return
        for claims in ready.values():
            for live in claims:
                self._markers.keep(live)
                self._inbox.add(live)
        with self._lock:
            for number, claims in ready.items():
                pending = self._pending.get(number)
                for live in claims:
                    if pending and pending[0] is live:
                        pending.popleft()
            self._lock.notify_all()

    def _ready(self, partition: int) -> list[LiveClaim]:
        """The contiguous prefix of acknowledged claims; one that failed voids the later ones."""
        found: list[LiveClaim] = []
        with self._lock:
            pending = self._pending.get(partition, deque())
            for live in pending:
                if live.failed:
                    self._void_from(partition, live)
                    break
                if not live.acknowledged:
                    break
                found.append(live)
        return found

    def _void_from(self, partition: int, failed: LiveClaim) -> None:
        pending = self._pending[partition]
        while pending and pending[-1] is not failed:
            pending.pop()
        pending.pop()
        self._positions[partition] = failed.start
        log.error("claim failed: polling it again", extra={"queue": self.queue})
        if self._consumer is not None:
            self._consumer.seek(TopicPartition(self.queue, partition, failed.start))

    def _commit_offsets(self, ready: dict[int, list[LiveClaim]]) -> bool:
        """Commit the ends of these claims; False if the partitions are no longer ours."""
        while True:
            with self._lock:
                for number in [n for n in ready if n not in self._pending]:
                    del ready[number]
            consumer = self._consumer
            if not ready or consumer is None:
                return False
            offsets = [
                TopicPartition(self.queue, number, claims[-1].end)
                for number, claims in ready.items()
            ]
            try:
                consumer.commit(offsets=offsets, asynchronous=False)
                return True
            except KafkaException as error:
                if not self._may_try_again(error.args[0]):
                    return False
                time.sleep(0.02)

    def _may_try_again(self, error: KafkaError) -> bool:
        """A refusal for a stale epoch, or a broker that is away: again, while it is ours."""
        if error.code() in _GONE or error.code() in _DENIED:
            return False
        if error.code() not in _STALE:
            log.info("commit", extra={"queue": self.queue, "error": error.str()})
        return True
