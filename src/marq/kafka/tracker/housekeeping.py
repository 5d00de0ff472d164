"""Keeps the house, twice a second: counts of queues, and topics that do not grow for ever.

What fails for one queue keeps no other from being counted and trimmed: it is told and counted by
`Troubles`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from marq import threads
from marq.core.catalog.definitions import Catalog
from marq.core.fold.counting import SourceCount
from marq.core.names import Space
from marq.errors import QueueError
from marq.kafka.client.seeker import Place, Seeker
from marq.kafka.cluster.admin import Admin
from marq.kafka.cluster.stats_log import StatsWriter
from marq.kafka.cluster.troubles import Troubles
from marq.kafka.tracker.act.report import Report
from marq.kafka.tracker.depths import Depths
from marq.kafka.tracker.gone import Gone
from marq.kafka.tracker.heard import Heard
from marq.kafka.tracker.holes import Holes
from marq.kafka.tracker.idle_groups import IdleGroups
from marq.kafka.tracker.queue_counts import QueueCounts
from marq.kafka.tracker.queue_topics import QueueTopics
from marq.kafka.tracker.trimming import Trimming
from marq.message import Stats

EVERY_S = 0.5
TRIM_EVERY_S = 10.0


class Cluster(Protocol):
    """What is kept."""

    @property
    def admin(self) -> Admin: ...

    @property
    def space(self) -> Space: ...

    def catalog(self) -> Catalog:
        """The catalog, read to its end now."""
        ...

    def recent_catalog(self) -> Catalog:
        """The catalog as it was a second ago at most."""
        ...


class Keeping:
    """What the tracker's driver does beside the query."""

    def __init__(
        self,
        cluster: Cluster,
        seeker: Seeker,
        writer: StatsWriter,
        now_ms: Callable[[], int | None],
        keeps_time: Callable[[], bool] = lambda: True,
        chores: Sequence[Callable[[int], None]] = (),
    ) -> None:
        self._cluster = cluster
        self._admin = cluster.admin
        self._chores = chores
        """What else is to be done now and then; told the log's time."""
        self._now_ms = now_ms
        self._keeps_time = keeps_time
        self._writer = writer
        self.troubles = Troubles()
        self._look = QueueTopics(self._admin, self.troubles)
        self._counts = QueueCounts(Depths(seeker), Depths(seeker), self.troubles)
        self._trimming = Trimming(self._admin, cluster.space, Holes(seeker), self.troubles)
        self._idle = IdleGroups(self._admin, cluster.space)
        self._stats: dict[str, tuple[int, Stats]] = {}
        """By queue, with the version that made it."""
        self._heard = Heard()
        self._trims: dict[Place, int] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._trimmed_at = float("-inf")
        self._gone = Gone()
        self.gone: frozenset[bytes] = frozenset()
        """Ids of topics that were deleted."""
        self.failure: BaseException | None = None
        """What its thread ended by; nothing is counted or trimmed any more."""
        self._thread = threads.make(self._run, "marq-keeping", self._failed)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident:
            self._thread.join()

    def take(self, reports: Iterable[Report]) -> None:
        """What the batch just run came to."""
        with self._lock:
            for report in reports:
                self._heard.take(report)
                if report.trim_to:
                    self._trims[report.topic, report.partition] = report.trim_to

    def _failed(self, error: BaseException) -> None:
        self.failure = error

    def _run(self) -> None:
        while not self._stopping.wait(EVERY_S):
            with self.troubles.kept_apart("keeping house"):
                self.keep()

    def keep(self) -> None:
        """One round; none where folds stand still, for what they say is old, and a sign of life
        would be a lie."""
        with self._lock:
            reports, trims = self._heard.reports(), self._trims
            sources = {
                (each.topic_id, each.partition): each
                for each in self._heard.sources()
                if not each.subscription
            }
            self._trims = {}
        if not reports or not self._keeps_time():
            return
        # The restatements that make this safe are in the log: act wrote them before it reported.
        for (topic, number), error in self._admin.trim_each(trims).items():
            self.troubles.tell(f"trimming {topic}, partition {number}", error)
        # By the log's clock now; the folds are a batch behind.
        now_ms = self._now_ms() or max(report.clock_ms for report in reports)
        now = time.monotonic()
        trims_queues = now >= self._trimmed_at + TRIM_EVERY_S
        catalog = self._cluster.catalog() if trims_queues else self._cluster.recent_catalog()
        topics = self._look.look(catalog, sources, anew=trims_queues)
        counted: dict[str, Stats] = {}
        with self.troubles.kept_apart("counting queues"):
            counted = self._counts.of(catalog, topics, reports, now_ms)
        with self.troubles.kept_apart("writing counts"):
            self._write(catalog, counted, now_ms)
        if trims_queues:
            self._trimmed_at = now
            with self.troubles.kept_apart("trimming queues"):
                self._trimming.trim(catalog, topics, now_ms)
            with self.troubles.kept_apart("looking for deleted topics"):
                self._look_for_gone(sources.values(), now)
            for chore in self._chores:
                with self.troubles.kept_apart("keeping the catalog"):
                    chore(now_ms)
        with self.troubles.kept_apart("keeping the offsets of idle groups"):
            self._idle.keep_one(catalog)

    def _write(self, catalog: Catalog, counted: dict[str, Stats], now_ms: int) -> None:
        """What could not be counted now is as it was when it last could."""
        made = {queue: catalog.made(queue) for queue in catalog.queues()}
        before = {queue: each for queue, each in self._stats.items() if made.get(queue) == each[0]}
        now = {queue: (made[queue], each) for queue, each in counted.items() if queue in made}
        self._stats = before | now
        stats = {queue: each for queue, (_, each) in self._stats.items()}
        self._writer.write(stats, now_ms, made)

    def _look_for_gone(self, sources: Collection[SourceCount], now: float) -> None:
        found = self._admin.describe_each({source.queue for source in sources})
        there = {
            name: about and about[0]
            for name, about in found.items()
            if not isinstance(about, QueueError)
        }
        self.gone = self._gone.look(sources, there, now)
