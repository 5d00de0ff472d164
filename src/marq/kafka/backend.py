"""Queues on Kafka: what `kafka://` and `embedded://` connect to."""

from __future__ import annotations

import contextlib
import random
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from types import MappingProxyType
from weakref import WeakSet

from msgspec.structs import replace

from marq import forks, lifetime
from marq.backend import Inbox
from marq.core import names
from marq.core.catalog.definitions import Catalog, QueueDefinition
from marq.core.fate.redelivery import AHEAD_MS
from marq.core.markers import codec
from marq.core.markers.marker import Action, HeldParked, Hold, ParkedRef
from marq.core.messages.sending import Message
from marq.core.messages.stored import PURGED_AT, Stored
from marq.errors import ConfigError, NotConnected, QueueError
from marq.kafka.client import config
from marq.kafka.cluster import other_spaces, topics
from marq.kafka.cluster.admin import Admin
from marq.kafka.cluster.catalog_log import CatalogLog
from marq.kafka.cluster.connection import Connection
from marq.kafka.cluster.queue_topic import QueueTopic
from marq.kafka.cluster.reader import Reader
from marq.kafka.cluster.stats_log import LATE_MS, Sign
from marq.kafka.finishing import finish, leave
from marq.kafka.inspecting import counts, dead_letters
from marq.kafka.marking.markers import Markers
from marq.kafka.receiving.inbox import KafkaInbox
from marq.kafka.receiving.pump import Pump
from marq.kafka.receiving.queue_end import QueueEnd
from marq.kafka.sending.outgoing import outgoing
from marq.kafka.sending.sender import Sender
from marq.message import Sent, Stats
from marq.receipt import Receipt
from marq.settings import Settings

_LINGER_MS, _MARKER_LINGER_MS = 5, 1


class Kafka:
    """A backend on a cluster."""

    def __init__(self, servers: str, settings: Settings, by_tracker: bool = False) -> None:
        self._servers = servers
        self._extra: config.Config = dict(settings.kafka)
        self.space = names.space(settings.namespace)
        self._timeout_s = settings.connect_timeout / 1_000
        self._by_tracker = by_tracker
        self.ends: WeakSet[QueueEnd] = WeakSet()
        self._closed = False
        self._begin()
        self._connected()
        forks.tell(self)

    def _begin(self) -> None:
        """Nothing is known, sent or received yet in this process."""
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        self._sender: Sender | None = None
        self._markers: Markers | None = None
        self._pumps: dict[str, tuple[Pump, KafkaInbox]] = {}
        self.sequence = count(1)
        """Numbers the claims of this process."""
        self._random = random.Random()
        self.failure: QueueError | None = None

    def forked(self) -> None:
        """This is a child of the process that had all this: what it had under way it goes on with;
        here a connection is made when one is needed."""
        if self._markers is not None:
            self._markers.forked()
        if self._sender is not None:
            self._sender.forked()
        for end in list(self.ends):
            end.forked()
        self._begin()

    def _connected(self) -> Connection:
        return self._connection or self._connect()

    def _connect(self) -> Connection:
        self._refuse_if_closed()
        about = (self._servers, self._extra, self.space, self._timeout_s, self._by_tracker)
        with self._lock:
            self._connection = self._connection or Connection(*about)
            return self._connection

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise ConfigError("the broker is closed: connect again")

    @property
    def admin(self) -> Admin:
        return self._connected().admin

    @property
    def reader(self) -> Reader:
        return self._connected().reader

    @property
    def catalog_log(self) -> CatalogLog:
        return self._connected().catalog_log

    @property
    def markers_partitions(self) -> int:
        return self._connected().markers_partitions

    @property
    def replicas(self) -> int:
        """How many copies the cluster keeps of a record."""
        return self._connected().replicas

    @property
    def sender(self) -> Sender:
        with self._lock:
            if self._sender is None:
                self._refuse_if_closed()
                settings = config.producer(self._servers, self._extra, _LINGER_MS)
                self._sender = Sender(settings, self._fail)
                lifetime.at_work()
            return self._sender

    @property
    def markers(self) -> Markers:
        with self._lock:
            if self._markers is None:
                self._refuse_if_closed()
                settings = config.producer(self._servers, self._extra, _MARKER_LINGER_MS)
                worker = secrets.randbits(64)
                self._markers = Markers(settings, self._hold_log, worker, self._fail)
                lifetime.at_work()
            return self._markers

    @property
    def _hold_log(self) -> tuple[str, int]:
        """Where markers go, and how many partitions it has."""
        return self.space.markers, self.markers_partitions

    def _fail(self, error: QueueError) -> None:
        """What was written is heard of no more: whoever takes messages is told."""
        self.failure = self.failure or error
        for _, inbox in list(self._pumps.values()):
            inbox.fail(error)

    def now_ms(self) -> int:
        return (self._markers or self.markers).clock.now_ms()

    # Queues.

    def catalog(self) -> Catalog:
        return self.catalog_log.read()

    def recent_catalog(self) -> Catalog:
        """The catalog as it was a second ago at most."""
        return self.catalog_log.recent()

    def definition(self, name: str) -> QueueDefinition:
        """The queue's definition as it was a second ago at most."""
        found = self.catalog_log.recent().of_topic(name)
        if found is None:
            raise ConfigError(f"there is no queue {name!r}: it was deleted; create it again first")
        return found

    def change(self, name: str, definition: QueueDefinition | None, version: int) -> bool:
        before = self.catalog_log.read()
        if before.queue_version(name) != version:
            return False
        is_new = before.queue(name) is None
        topic_id = "" if definition is not None else (self.admin.topic_id(name) or b"").hex()
        if definition is not None and is_new:
            if (left := before.deleted_topic(name)) and topics.remove(self.admin, name, left):
                self.admin.forget_group(self.space.consumer_group(name))
            other_spaces.refuse_others(self.admin, self.reader, self.space, name)
            topics.create_queue(self.admin, name, definition.partitions, self.replicas, self.space)
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
        return won

    def purge(self, name: str) -> None:
        while True:
            found = self.catalog_log.read()
            version, definition = found.queue_version(name), found.queue(name)
            if definition is None:
                raise ConfigError(f"there is no queue {name!r} to purge")
            purge = self._purge({name: definition.partitions})
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
        if message.plain:
            return self.sender.send_plain(queue, message.value, message.key)
        return self.sender.send(outgoing(queue, message, self.space.delayed, self.now_ms))

    def send_bytes(self, queue: str, value: bytes) -> Receipt[Sent]:
        return (self._sender or self.sender).send_plain(queue, value, None)

    def cancel(self, sent: Sent) -> bool:
        """Judged as the fold judges it: by when the log took the cancel."""
        if sent.topic != self.space.delayed or sent.due is None:
            return False
        ref = ParkedRef(round(sent.due.timestamp() * 1_000), sent.offset)
        hold = codec.encode(Hold(parked=(HeldParked(ref, Action.CANCEL),)))
        at_ms = self.sender.append(sent.topic, sent.partition, hold, self._timeout_s)
        return (self.now_ms() if at_ms is None else at_ms) < ref.due_ms - AHEAD_MS

    def flush(self, timeout_s: float | None) -> None:
        """Wait until what was sent and settled is durable; what never will be is an error."""
        self._refuse_if_closed()
        until = None if timeout_s is None else time.monotonic() + timeout_s
        if self._markers is not None:
            self._markers.flush_now()  # while messages are on their way
        if self._sender is not None:
            self._sender.flush(timeout_s)
            self._sender.tell()
        if self._markers is not None:
            left_s = None if until is None else max(0.0, until - time.monotonic())
            if not self._markers.flush(left_s):
                raise NotConnected("acks are not durable yet: no broker takes them in time")
            self._markers.tell()

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
        with self._lock:
            if queue not in self._pumps:
                if self.admin.topic_id(queue) is None:
                    raise ConfigError(
                        f"there is no queue {queue!r}: it was deleted, or never created"
                    )
                self._pumps[queue] = self._start_pump(queue)
            return self._pumps[queue]

    def _start_pump(self, queue: str) -> tuple[Pump, KafkaInbox]:
        markers = self.markers
        inbox = KafkaInbox(
            queue,
            lambda: self.definition(queue),
            markers.clock.now_ms,
            self.sender.send,
            self._random.random,
            markers.flush_ledger,
        )
        group, hold_log = self.space.consumer_group(queue), self._hold_log
        settings = config.group_consumer(self._servers, group, self._extra)
        topic = QueueTopic(queue, self.admin, self.reader, hold_log)
        pump = Pump(topic, settings, markers, inbox, self.sequence)
        pump.start()
        return pump, inbox

    def close_pump(self, queue: str) -> None:
        with self._lock:
            found = self._pumps.pop(queue, None)
        if found is not None:
            pump, inbox = found
            inbox.close()
            pump.stop()

    @property
    def connect_timeout_s(self) -> float:
        return self._timeout_s

    def peek(self, topic: str, limit: int) -> list[Stored]:
        return counts.peek(self, topic, limit)

    def redrive(self, chunks: Iterable[list[Stored]]) -> Iterator[int]:
        return dead_letters.redrive(self, chunks)

    def discard(self, chunks: Iterable[list[Stored]]) -> Iterator[int]:
        return dead_letters.discard(self, chunks)

    def sign_of_life(self) -> Sign:
        """The last one of the cluster's tracker."""
        return self._connected().stats.sign()

    def stats(self, queue: str) -> Stats:
        """What the tracker wrote last; where none runs, from a look at the logs."""
        self.definition(queue)
        reader = self._connected().stats
        found = reader.read(queue, self.recent_catalog().made(queue))
        if found is None or self.now_ms() > reader.alive_ms + LATE_MS:
            return counts.stats(self, queue)
        return found

    def counted(self, queue: str) -> Stats:
        """The counts of this very moment, from a look at the logs."""
        return counts.stats(self, queue)

    def finish(self, timeout_s: float) -> str:
        """Make durable what was sent and settled; what is not in time, in words."""
        until = time.monotonic() + timeout_s
        left = finish(self._sender, self._markers, until)
        leave([pump for pump, _ in self._pumps.values()], until)
        return left

    def in_hands(self) -> bool:
        """Whether someone may still settle what was handed out."""
        return self._markers is not None and self._markers.in_hands()

    def close(self) -> None:
        self._closed = True
        with contextlib.ExitStack() as last:  # each of them, even if one before it fails
            last.callback(self._disconnect)
            if self._sender is not None:
                last.callback(self._sender.close)
            if self._markers is not None:
                last.callback(self._markers.close)
            for queue in list(self._pumps):
                last.callback(self.close_pump, queue)

    def _disconnect(self) -> None:
        found, self._connection = self._connection, None
        if found is not None:
            found.close()
