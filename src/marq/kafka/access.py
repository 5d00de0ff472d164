"""What one process has of a cluster: its clients, made when they are needed, anew after a fork."""

from __future__ import annotations

import contextlib
import random
import secrets
import threading
import time
from itertools import count

from marq import forks, lifetime
from marq.core import names
from marq.core.catalog.definitions import Catalog, QueueDefinition
from marq.core.subject import Subject
from marq.errors import ConfigError, NotConnected, QueueError
from marq.kafka.client import config
from marq.kafka.cluster.admin import Admin
from marq.kafka.cluster.catalog_log import CatalogLog
from marq.kafka.cluster.connection import Connection
from marq.kafka.cluster.reader import LogReader
from marq.kafka.finishing import finish
from marq.kafka.marking.markers import Markers
from marq.kafka.sending.sender import Sender
from marq.kafka.sending.senders import Senders
from marq.settings import Settings

_LINGER_MS = 5
_MARKER_LINGER_MS = 0
"""Claims are one record a poll, and each is waited for; progress was gathered before."""


class Access:
    """The connection to a cluster, the producers of messages and markers, and the catalog."""

    def __init__(self, servers: str, settings: Settings, by_tracker: bool = False) -> None:
        self.servers = servers
        self.extra: config.Config = dict(settings.kafka)
        self.space = names.space(settings.namespace)
        self.connect_timeout_s = settings.connect_timeout / 1_000
        self._by_tracker = by_tracker
        self._hold_log_partitions = settings.hold_log_partitions
        self._closed = False
        self._begin()
        self._connected()
        forks.tell(self)

    def _begin(self) -> None:
        """Nothing is known or sent yet in this process."""
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        self._senders: Senders | None = None
        self._sender: Sender | None = None
        self._markers: Markers | None = None
        self.sequence = count(1)
        """Numbers the claims of this process."""
        self._random = random.Random()
        self.failure: QueueError | None = None

    def forked(self) -> None:
        """This is a child of the process that had all this: what it had under way it goes on with;
        here a connection is made when one is needed."""
        if self._markers is not None:
            self._markers.forked()
        if self._senders is not None:
            self._senders.forked()
        self._begin()

    def _connected(self) -> Connection:
        return self._connection or self._connect()

    def _connect(self) -> Connection:
        self._refuse_if_closed()
        with self._lock:
            self._connection = self._connection or Connection(
                self.servers,
                self.extra,
                self.space,
                self.connect_timeout_s,
                hold_log_partitions=self._hold_log_partitions,
                by_tracker=self._by_tracker,
            )
            return self._connection

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise ConfigError("the broker is closed: connect again")

    @property
    def admin(self) -> Admin:
        return self._connected().admin

    @property
    def reader(self) -> LogReader:
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
    def senders(self) -> Senders:
        with self._lock:
            if self._senders is None:
                self._refuse_if_closed()
                self._senders = Senders(self._producer_settings, _LINGER_MS, self._fail)
                lifetime.at_work()
            return self._senders

    @property
    def sender(self) -> Sender:
        """For messages nobody waits for one by one."""
        self._sender = self._sender or self.senders.gathering
        return self._sender

    def _producer_settings(self, linger_ms: float) -> config.Config:
        self._refuse_if_closed()
        return config.producer(self.servers, self.extra, linger_ms)

    @property
    def markers(self) -> Markers:
        with self._lock:
            if self._markers is None:
                self._refuse_if_closed()
                settings = config.producer(self.servers, self.extra, _MARKER_LINGER_MS)
                worker = secrets.randbits(64)
                self._markers = Markers(settings, self._hold_log, worker, self._fail)
                lifetime.at_work()
            return self._markers

    @property
    def _hold_log(self) -> tuple[str, int]:
        """Where markers go, and how many partitions it has."""
        return self.space.markers, self.markers_partitions

    def _fail(self, error: QueueError) -> None:
        """What was written is heard of no more."""
        self.failure = self.failure or error

    def now_ms(self) -> int:
        return (self._markers or self.markers).clock.now_ms()

    def require(self, feature: str) -> None:
        """Refuse to go on where a tracker runs that does not know this."""
        self._connected().stats.require(feature)

    # The catalog.

    def catalog(self) -> Catalog:
        return self.catalog_log.read()

    def recent_catalog(self) -> Catalog:
        """The catalog as it was a second ago at most."""
        return self.catalog_log.recent()

    def definition(self, name: str, age_s: float = 1.0) -> QueueDefinition:
        """The queue's definition as it was a second ago at most, or so long."""
        found = self.catalog_log.recent(age_s).definition_of(Subject(name))
        if found is None:
            raise ConfigError(f"there is no queue {name!r}: it was deleted; create it again first")
        return found

    # Closing.

    def flush(self, timeout_s: float | None) -> None:
        """Wait until what was sent and settled is durable; what never will be is an error."""
        self._refuse_if_closed()
        until = None if timeout_s is None else time.monotonic() + timeout_s
        if self._markers is not None:
            self._markers.flush_now()  # while messages are on their way
        if self._senders is not None:
            self._senders.flush(timeout_s)
            self._senders.tell()
        if self._markers is not None:
            left_s = None if until is None else max(0.0, until - time.monotonic())
            if not self._markers.flush(left_s):
                raise NotConnected("acks are not durable yet: no broker takes them in time")
            self._markers.tell()

    def finish(self, timeout_s: float) -> str:
        """Make durable what was sent and settled; what is not in time, in words."""
        return finish(self._senders, self._markers, time.monotonic() + timeout_s)

    def in_hands(self) -> bool:
        """Whether someone may still settle what was handed out."""
        return self._markers is not None and self._markers.in_hands()

    def close(self) -> None:
        """Let go of everything; again is harmless."""
        self._closed = True
        with contextlib.ExitStack() as last:  # each of them, even if one before it fails
            last.callback(self._disconnect)
            if self._markers is not None:
                last.callback(self._markers.close)
            if self._senders is not None:  # first: what is given back ends once its copy is sent
                last.callback(self._senders.close)

    def _disconnect(self) -> None:
        found, self._connection = self._connection, None
        if found is not None:
            found.close()
