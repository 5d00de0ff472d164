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
from collections.abc import Callable
from itertools import count
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from marq.core import claimed
from marq.core.claimed import Runs
from marq.core.marker import Claim, ClaimId, Source
from marq.errors import ConfigError, NotConnected, QueueError
from marq.kafka.clients import take
from marq.kafka.config import PUMP_LEASE_MS
from marq.kafka.inbox import KafkaInbox
from marq.kafka.live import LiveClaim
from marq.kafka.markers import Markers
from marq.kafka.prefetch import Prefetch
from marq.kafka.segments import segments
from marq.kafka.uncommitted import Uncommitted

log = logging.getLogger("marq.kafka")

IDLE_S = 15.0
"""A process that takes nothing for so long leaves the group, so that others get its messages."""
_REVOKE_S = 3.0
_LOOK_S = 1.0
_IDLE_POLL_S, _BUSY_POLL_S = 0.1, 0.001
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
        identify: Callable[[], bytes | None],
        settings: dict[str, Any],
        markers: Markers,
        inbox: KafkaInbox,
        sequence: count[int],
    ) -> None:
        self.queue = queue
        self._identify = identify
        """Asks the cluster for the topic's id; None: there is no such topic."""
        self._topic_id = b""
        self._settings = settings
        self._markers = markers
        self._inbox = inbox
        self._sequence = sequence
        self._prefetch = Prefetch()
        self._consumer: Consumer | None = None
        self._uncommitted = Uncommitted()
        self._answered = threading.Event()
        """Some claim was answered since the pump looked last."""
        self._paused: bool | None = None
        """Whether all our partitions are paused; None: some may be."""
        self._refused: KafkaError | None = None
        """Why the last commit failed: a rebalance may wait to be served."""
        self._looked_at = time.monotonic()
        self._joined = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"marq-pump-{queue}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def joined(self) -> bool:
        return self._joined.is_set()

    def wait_until_joined(self, timeout_s: float) -> bool:
        """Wait until the group has given us partitions, or said that there are none left."""
        return self._joined.wait(timeout_s)

    def stop(self) -> None:
        """Give back what is not begun and leave the group; again is harmless."""
        self._stopping = True
        self._answered.set()
        with self._inbox.changed:
            self._inbox.changed.notify_all()
        if self._thread.ident and self._thread is not threading.current_thread():
            self._thread.join()

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

    # Joining and leaving the group.

    def _join_when_wanted(self) -> None:
        if self._consumer is None:
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
        try:
            found = self._identify()
        except NotConnected:
            return  # later, when a broker answers
        if found is None:
            raise self._deleted()
        self._topic_id = found
        self._consumer = Consumer({**self._settings, "on_commit": self._committed})
        self._consumer.subscribe(
            [self.queue], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def _leave(self) -> None:
        if self._consumer is None:
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
            consumer, self._consumer = self._consumer, None
            consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for place in partitions:
            self._uncommitted.assign(place.partition)
        self._paused = None  # the new ones are not, the old ones may be
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

    def _pump(self) -> None:
        room = self._prefetch.room(self._inbox, self._uncommitted.messages())
        # With no room there is no polling, and without polling an answer would not be heard.
        self._commit_answered(wait=room <= 0)
        in_flight = self._uncommitted.messages()
        if room <= 0 and in_flight and self._refused is None:
            self._answered.wait(_IDLE_POLL_S)
            return
        if room <= 0 and self._uncommitted.partitions:
            room = self._wait_for_room()
        if room > 0:
            self._resume()
        else:
            self._pause()
        self._poll(max(1, room), _BUSY_POLL_S if in_flight else _IDLE_POLL_S)

    def _poll(self, limit: int, patience_s: float) -> None:
        assert self._consumer is not None
        good = self._check(take(self._consumer, limit, patience_s))
        if good:
            self._prefetch.polled(good)
            self._claim(good)

    def _wait_for_room(self) -> int:
        until = time.monotonic() + _FULL_S
        with self._inbox.changed:
            while time.monotonic() < until and not self._stopping:
                room = self._prefetch.room(self._inbox, 0)
                if room > 0:
                    return room
                self._inbox.changed.wait(0.01)
        return 0

    def _pause(self) -> None:
        """Fetch nothing more; polling goes on, for rebalances are served in it."""
        if self._paused is not True and self._consumer is not None:
            self._paused = True
            self._consumer.pause(self._consumer.assignment())

    def _resume(self) -> None:
        if self._paused is not False and self._consumer is not None:
            self._paused = False
            self._consumer.resume(self._consumer.assignment())

    def _claim(self, batch: list[Any]) -> None:
        for partition, runs, messages in segments(batch):
            if partition not in self._uncommitted:
                continue  # revoked while it was polled: someone else has it
            live = self._live(partition, runs, messages)
            self._uncommitted.add(live)
            self._markers.claim(live, self._answered.set)

    def _live(self, partition: int, runs: Runs, messages: list[Any]) -> LiveClaim:
        end = claimed.end(runs)
        claim = Claim(
            ClaimId(self._markers.worker, next(self._sequence)),
            Source(self._topic_id, partition, self.queue, "", 0),
            self._uncommitted.start(partition, runs[0][0], end),
            runs,
            PUMP_LEASE_MS,
        )
        return LiveClaim(claim, messages, end, self._markers.lane(self.queue, partition))

    # Errors among the messages.

    def _check(self, batch: list[Any]) -> list[Any]:
        """The messages of a batch; what the consumer has to say otherwise is acted on."""
        if not any(map(Message.error, batch)):
            return batch
        for message in batch:
            if message.error() is not None:
                self._failed(message)
        return [message for message in batch if message.error() is None]

    def _failed(self, message: Any) -> None:
        error = message.error()
        code = error.code()
        if code in _DENIED:
            raise ConfigError(f"the cluster refuses reading {self.queue!r}: {error.str()}")
        if code in _GONE:
            self._refuse_another_topic()
        elif code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            self._refuse_another_topic()
            self._go_to_start(message.partition())
        else:
            log.info("consumer", extra={"queue": self.queue, "error": error.str()})

    def _refuse_another_topic(self) -> None:
        """A queue created again is another source: claims under the old one's id would open
        nothing, and what they commit would be lost. A broker may also not know it yet."""
        with contextlib.suppress(NotConnected):
            if self._identify() != self._topic_id:
                raise self._deleted()

    def _deleted(self) -> ConfigError:
        return ConfigError(f"queue {self.queue!r} was deleted: its worker has nothing to do")

    def _go_to_start(self, partition: int) -> None:
        """Nothing unacked lies below the log's start: go on there, and say so."""
        if self._consumer is None or partition not in self._uncommitted:
            return
        place = TopicPartition(self.queue, partition)
        start, _ = self._consumer.get_watermark_offsets(place, timeout=10)
        log.warning(
            "no usable offset: starting at the log's start",
            extra={"queue": self.queue, "partition": partition, "offset": start},
        )
        # Not by seek: librdkafka has stopped fetching it.
        self._consumer.incremental_unassign([place])
        self._consumer.incremental_assign([TopicPartition(self.queue, partition, start)])
        self._paused = None

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
        assert self._consumer is not None
        self._consumer.seek(TopicPartition(self.queue, failed.partition, failed.start))

    def _commit(self, ends: dict[int, int], wait: bool) -> None:
        assert self._consumer is not None
        offsets = [TopicPartition(self.queue, number, end) for number, end in ends.items()]
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
                self._markers.keep(live)
                self._inbox.add(live)

    def _wait_after(self, refused: KafkaError) -> None:
        """A stale epoch or a broker that is away: again, while the partition is ours. A rebalance
        is served by polling, so go on there first."""
        if refused.code() in _DENIED:
            raise ConfigError(f"the cluster refuses commits for {self.queue!r}: {refused.str()}")
        if refused.code() not in _STALE:
            log.info("commit", extra={"queue": self.queue, "error": refused.str()})
        time.sleep(0.01)
