"""Queues on Kafka: what `kafka://` and `embedded://` connect to."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from weakref import WeakSet

from msgspec.structs import replace

from marq.backend import Inbox
from marq.core.catalog.definitions import QueueDefinition
from marq.core.fate import parking
from marq.core.fate.parking import AHEAD_MS
from marq.core.markers import codec
from marq.core.markers.marker import Action, HeldParked, Hold, ParkedRef
from marq.core.messages.sending import Message
from marq.core.messages.stored import PURGED_AT, Stored
from marq.errors import ConfigError, QueueError
from marq.kafka.access import Access
from marq.kafka.client import config
from marq.kafka.cluster import other_spaces, topics
from marq.kafka.cluster.queue_topic import QueueTopic
from marq.kafka.cluster.stats_log import LATE_MS, Sign
from marq.kafka.groups.service import Service
from marq.kafka.half import registry
from marq.kafka.half.owner import KafkaHalves
from marq.kafka.inspecting import counts, dead_letters
from marq.kafka.receiving.inbox import KafkaInbox
from marq.kafka.receiving.pump import Pump
from marq.kafka.receiving.queue_end import QueueEnd, leave
from marq.kafka.receiving.stages import PumpParts
from marq.kafka.sending.sender import Sender
from marq.message import Sent, Stats
from marq.receipt import Receipt
from marq.settings import Settings

_FINALS_S = 10.0
"""How long closing waits for the finals of half messages."""
_LOOK_S, _KNOWN_S = 0.8, 2.0
"""A queue's pump looks this often at what the catalog says of it, so that whoever takes messages
need not ask: he goes by what is not older than that."""


class Kafka(Access):
    """A backend on a cluster."""

    def __init__(self, servers: str, settings: Settings, by_tracker: bool = False) -> None:
        self.ends: WeakSet[QueueEnd] = WeakSet()
        self._groups: Service | None = None
        super().__init__(servers, settings, by_tracker)

    def _begin(self) -> None:
        super()._begin()
        self._halves: KafkaHalves | None = None
        self._pumps: dict[str, tuple[Pump, KafkaInbox]] = {}

    def forked(self) -> None:
        if self._halves is not None:
            self._halves.forked()
        for end in list(self.ends):
            end.forked()
        super().forked()

    def _fail(self, error: QueueError) -> None:
        """Whoever takes messages is told."""
        super()._fail(error)
        for _, inbox in list(self._pumps.values()):
            inbox.fail(error)

    # Half messages.

    @property
    def halves(self) -> KafkaHalves:
        with self._lock:
            if self._halves is None:
                self._refuse_if_closed()
                self._halves = KafkaHalves(self)
            return self._halves

    # Queues.

    def change(self, name: str, definition: QueueDefinition | None, version: int) -> bool:
        before = self.catalog_log.read()
        if before.queue_version(name) != version:
            return False
        is_new = before.queue(name) is None
        topic_id = "" if definition is not None else (self.admin.topic_id(name) or b"").hex()
        if definition is None:
            self.admin.refuse_undeletable(name)
        if definition is not None and is_new:
            if (left := before.deleted_topic(name)) and topics.remove(self.admin, name, left):
                self.admin.forget_group(self.space.consumer_group(name))
            self._create_topics([name], definition)
            # What was parked for an earlier queue of this name is not for this one.
            definition = replace(definition, purged=self._purge())
        entry = before.change(name, definition, topic_id)
        # What is in force may have become newer under our eyes: only the next version may win.
        won = entry.version == version + 1 and self.catalog_log.append(entry)
        if won and definition is None:
            self.close_pump(name)
            # Leaving takes a while. By now the name may be a queue's that was made since.
            if topic_id and topics.remove(self.admin, name, topic_id):
                self.admin.forget_group(self.space.consumer_group(name))
            registry.forget_of(self, name)
        return won

    def create_all(self, queues: Sequence[str], definition: QueueDefinition) -> None:
        before = self.catalog_log.read()
        new = [queue for queue in queues if before.queue(queue) is None]
        # A deletion that was cut short goes on first, one by one.
        left = [queue for queue in new if before.deleted_topic(queue)]
        for queue in left:
            self.change(queue, definition, before.queue_version(queue))
        if fresh := [queue for queue in new if queue not in set(left)]:
            self._create_topics(fresh, definition)
            purged = replace(definition, purged=self._purge())
            self.catalog_log.append_all(before.change(queue, purged) for queue in fresh)

    def _create_topics(self, queues: Sequence[str], definition: QueueDefinition) -> None:
        other_spaces.refuse_others(self.admin, self.reader, self.space, queues)
        topics.create_queues(self.admin, queues, definition.partitions, self.replicas, self.space)

    def purge(self, name: str) -> None:
        while True:
            found = self.catalog_log.read()
            version, definition = found.queue_version(name), found.queue(name)
            if definition is None:
                raise ConfigError(f"there is no queue {name!r} to purge")
            about = self.admin.describe(name)  # an operator may have added partitions
            purge = self._purge({name: about[1] if about else definition.partitions})
            if self.change(name, replace(definition, purged=purge), version):
                return

    def _purge(self, topics: Mapping[str, int] = MappingProxyType({})) -> dict[str, int]:
        """What voids all that lies in these topics now, and all that is parked."""
        found: dict[str, int] = {}
        newest_ms = 0
        for topic, partitions in {**topics, self.space.delayed: self.markers_partitions}.items():
            ends = self.admin.ends(topic, partitions)
            found |= {f"{topic}:{number}": end for number, end in enumerate(ends)}
            newest_ms = max(newest_ms, self.admin.newest_ms(topic, partitions))
        return {**found, PURGED_AT: newest_ms}

    # Sending.

    def send(self, queue: str, message: Message) -> Receipt[Sent]:
        return self._send(self.sender, queue, message)

    def send_at_once(self, queue: str, messages: Sequence[Message]) -> list[Receipt[Sent]]:
        sender = self.senders.at_once(len(messages))
        return [self._send(sender, queue, message) for message in messages]

    def _send(self, sender: Sender, queue: str, message: Message) -> Receipt[Sent]:
        if message.plain:
            return sender.send_plain(queue, message.value, message.key)
        return sender.send(parking.sent(queue, message, self.space.delayed, self.now_ms))

    def send_bytes(self, queue: str, value: bytes) -> Receipt[Sent]:
        return (self._sender or self.sender).send_plain(queue, value, None)

    def cancel(self, sent: Sent) -> bool:
        """Judged as the fold judges it: by when the log took the cancel."""
        if sent.topic != self.space.delayed or sent.due is None:
            return False
        ref = ParkedRef(round(sent.due.timestamp() * 1_000), sent.offset)
        hold = codec.encode(Hold(parked=(HeldParked(ref, Action.CANCEL),)))
        at_ms = self.senders.prompt.append(sent.topic, sent.partition, hold, self.connect_timeout_s)
        return (self.now_ms() if at_ms is None else at_ms) < ref.due_ms - AHEAD_MS

    def flush(self, timeout_s: float | None) -> None:
        until = None if timeout_s is None else time.monotonic() + timeout_s
        super().flush(timeout_s)
        if self._halves is not None:
            self._halves.flush(None if until is None else max(0.0, until - time.monotonic()))

    # Receiving.

    def inbox(self, queue: str) -> Inbox:
        end = QueueEnd(self, queue)
        self.ends.add(end)
        return end

    def pump(self, queue: str) -> tuple[Pump, KafkaInbox]:
        """The process's one consumer of the queue, started on first use."""
        if self.failure is not None:
            raise self.failure
        self._refuse_if_closed()
        if (found := self._pumps.get(queue)) is not None:
            return found
        # Asked before the lock is taken: others send and settle while a broker is slow to answer.
        if self.admin.topic_id(queue) is None:
            raise ConfigError(f"there is no queue {queue!r}: it was deleted, or never created")
        with self._lock:
            if queue not in self._pumps:
                self._pumps[queue] = self._start_pump(queue)
            return self._pumps[queue]

    def _start_pump(self, queue: str) -> tuple[Pump, KafkaInbox]:
        markers = self.markers
        inbox = KafkaInbox(
            queue,
            lambda: self.definition(queue, _KNOWN_S),
            markers.clock.now_ms,
            self.sender.send,
            self._random.random,
            markers.flush_ledger,
        )
        group, hold_log = self.space.consumer_group(queue), self._hold_log
        settings = config.group_consumer(self.servers, group, self.extra)
        topic = QueueTopic(queue, self.admin, self.reader, hold_log)
        look = partial(self.definition, queue, _LOOK_S)
        pump = Pump(PumpParts(topic, settings, markers, inbox, self.sequence, look))
        pump.start()
        return pump, inbox

    def close_pump(self, queue: str) -> None:
        with self._lock:
            found = self._pumps.pop(queue, None)
        if found is not None:
            pump, inbox = found
            inbox.close()
            pump.stop()

    def peek(self, topic: str, limit: int) -> Iterator[Stored]:
        return counts.peek(self, topic, limit)

    def redrive(self, chunks: Iterable[list[Stored]]) -> Iterator[int]:
        return dead_letters.redrive(self, lambda names: self.groups().find(names), chunks)

    def discard(self, chunks: Iterable[list[Stored]]) -> Iterator[int]:
        return dead_letters.discard(self, chunks)

    def sign_of_life(self) -> Sign:
        """The last one of the cluster's tracker."""
        return self._connected().stats.sign()

    def stats(self, queue: str) -> Stats:
        """What the tracker wrote last; where none runs, from a look at the logs."""
        self.definition(queue)
        reader = self._connected().stats
        now_ms = self.now_ms()
        found = reader.read(queue, now_ms, self.recent_catalog().made(queue))
        if found is None or now_ms > reader.alive_ms + LATE_MS:
            return counts.stats(self, queue)
        return found

    def counted(self, queue: str) -> Stats:
        """The counts of this very moment, from a look at the logs."""
        return counts.stats(self, queue)

    # Ordered groups.

    def groups(self) -> Service:
        with self._lock:
            self._groups = self._groups or Service(self)
            return self._groups

    # Closing.

    def finish(self, timeout_s: float) -> str:
        until = time.monotonic() + timeout_s
        left = super().finish(timeout_s)
        if self._halves is not None:
            with contextlib.suppress(Exception):  # whoever is asked decides then
                self._halves.flush(max(0.0, until - time.monotonic()))
            self._halves.leave()
        leave([pump for pump, _ in self._pumps.values()], until)
        return left

    def in_hands(self) -> bool:
        return super().in_hands() or (self._halves is not None and self._halves.in_hands())

    def close(self) -> None:
        with contextlib.ExitStack() as last:  # each of them, even if one before it fails
            last.callback(super().close)
            if self._halves is not None:
                last.callback(self._halves.close)
                if self._senders is not None:  # of what is taken now the ends are to be written
                    last.callback(self._senders.flush, _FINALS_S)
            for queue in list(self._pumps):
                last.callback(self.close_pump, queue)
