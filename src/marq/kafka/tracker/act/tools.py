"""What every act of a process shares: connections are slow to make."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from functools import cached_property, partial

from marq.core import names
from marq.core.catalog.definitions import Catalog
from marq.core.fold import hold_log
from marq.core.names import Space
from marq.errors import NotConnected, QueueError, UnknownMarkerVersion
from marq.kafka.client import config
from marq.kafka.client.making import Consumer, warm_producer
from marq.kafka.client.seeker import Place, Seeker
from marq.kafka.client.transactions import Transactions
from marq.kafka.cluster.admin import Admin
from marq.kafka.cluster.catalog_log import CatalogLog

log = logging.getLogger("marq.tracker")

_TIMEOUT_S = 10.0
_THERE_S = 60.0
_SILENT_S = 60.0


def passed(error: UnknownMarkerVersion) -> None:
    """Go on past a record of a newer version; the fold counts it as skipped."""
    log.warning("skipped, as the tracker was told to: %s", error)


class Tools:
    """Reads and writes for acts, one after the other."""

    def __init__(
        self, servers: str, extra: config.Config, space: Space, skip_newer: bool = False
    ) -> None:
        self._servers, self._extra = servers, extra
        self.space = space
        self.newer = passed if skip_newer else hold_log.refuse
        """What is done about a record of a newer version."""
        self._admin = Admin(config.common(servers, extra), _TIMEOUT_S)
        self.seeker = Seeker(config.reader(servers, extra))
        self._delayed_partitions = 0
        self._there: dict[str, float] = {}
        """Topics that are there, and until when that is believed."""
        self._silent: dict[Place, float] = {}

    def catalog(self) -> Catalog:
        """The catalog, read to its end: a queue that is not in it counts as deleted, and one may be
        a moment old. Each process of an executor follows it by itself, for to hand it to each batch
        costs as much as there are queues."""
        return self._catalog_log.read()

    @cached_property
    def _catalog_log(self) -> CatalogLog:
        reader = Consumer(config.reader(self._servers, self._extra))
        writer = partial(warm_producer, config.producer(self._servers, self._extra, 0))
        return CatalogLog(reader, writer, self._servers, self.space.catalog, _TIMEOUT_S)

    def open(self, topic: str, partition: int) -> Transactions:
        """The partition's producer, anew: every earlier one is fenced."""
        return Transactions(
            config.producer(self._servers, self._extra, 0), self.space.tracker_id(topic, partition)
        )

    def end(self, topic: str, partition: int) -> int:
        """The high watermark, whether transactions below it are decided or not."""
        return self._admin.end(topic, partition)

    def topic(self, topic: str) -> tuple[bytes, int] | None:
        """The topic's id and its number of partitions; None if there is none."""
        return self._admin.describe(topic) if names.is_topic(topic) else None

    def topics(self, topics: Iterable[str]) -> dict[str, tuple[bytes, int] | QueueError | None]:
        """The same of many, asked for at once: one after the other would take milliseconds each.
        Where the cluster does not tell it of one, why not."""
        asked = set(topics)
        found = self._admin.describe_each(filter(names.is_topic, asked))
        return {**dict.fromkeys(asked), **found}

    def missing(self, topics: set[str]) -> set[str]:
        """Those of these topics that are not there; what was there is asked for once a minute."""
        now = time.monotonic()
        asked = {topic for topic in topics if self._there.get(topic, now) <= now}
        found = self._admin.describe_each(filter(names.is_topic, asked))
        there = set()
        for topic, about in found.items():
            if isinstance(about, NotConnected):
                raise about
            if about:  # or nobody may look: what is written to it tells
                there.add(topic)
        self._there.update(dict.fromkeys(there, now + _THERE_S))
        return asked - there

    def silence(self, places: Iterable[Place]) -> None:
        """Nobody answers for these partitions: acts go without for a while, for each would wait
        for them again, and so would everyone else's messages."""
        self._silent.update(dict.fromkeys(places, time.monotonic() + _SILENT_S))

    @property
    def silent(self) -> set[Place]:
        """Partitions that are not asked for now."""
        now = time.monotonic()
        self._silent = {place: until for place, until in self._silent.items() if now < until}
        return set(self._silent)

    @property
    def delayed_partitions(self) -> int:
        """How many partitions parked messages have; that never changes."""
        if not self._delayed_partitions:
            found = self._admin.describe(self.space.delayed)
            self._delayed_partitions = found[1] if found else 1
        return self._delayed_partitions
