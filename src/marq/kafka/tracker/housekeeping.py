"""Keeps the house, twice a second: counts of queues, and topics that do not grow for ever.

What fails for one queue keeps no other from being counted and trimmed: it is told and counted by
`Troubles`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from marq import threads
from marq.core.catalog.definitions import Catalog, QueueDefinition
from marq.core.names import Space
from marq.core.subject import Subject
from marq.errors import QueueError
from marq.kafka.client.seeker import Place, Seeker
from marq.kafka.cluster.admin import Admin
from marq.kafka.cluster.stats_log import Counts, StatsWriter
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
from marq.kafka.tracker.turns import QueueFacts, Turns

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


class Readers(NamedTuple):
    """What topics are read by."""

    stretches: Seeker
    """Of thousands of records."""
    glances: Seeker
    """At a few here and there."""


class Keeping:
    """What the tracker's driver does beside the query."""

    def __init__(
        self,
        cluster: Cluster,
        readers: Readers,
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
        self._counts = QueueCounts(Depths(readers.glances), Depths(readers.glances), self.troubles)
        self._trimming = Trimming(
            self._admin, cluster.space, Holes(readers.stretches), self.troubles
        )
        self._idle = IdleGroups(self._admin, cluster.space)
        self._heard = Heard()
        self._trims: dict[Place, int] = {}
        self._turns = Turns()
        self._ended: set[str] = set()
        """Queues to be looked at anew: something has ended there, or a topic was not found."""
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
                self._turns.tell(self._heard.take(report))
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
        definitions = dict(catalog.definitions())
        counted: dict[str, Counts] = {}
        with self.troubles.kept_apart("counting queues"):
            counted = self._count(catalog, definitions, now_ms)
        with self.troubles.kept_apart("writing counts"):
            self._writer.write(counted, now_ms, catalog.all_made())
        if trims_queues:
            self._trimmed_at = now
            with self.troubles.kept_apart("trimming queues"):
                self._trim(catalog, definitions, now_ms)
            with self.troubles.kept_apart("looking for deleted topics"):
                self._look_for_gone(now)
            for chore in self._chores:
                with self.troubles.kept_apart("keeping the catalog"):
                    chore(now_ms)
        with self.troubles.kept_apart("keeping the offsets of idle groups"):
            self._idle.keep_one(definitions)

    def _count(
        self, catalog: Catalog, definitions: Mapping[str, QueueDefinition], now_ms: int
    ) -> dict[str, Counts]:
        """Count those whose turn it is."""
        known = {
            q: QueueFacts(catalog.queue_version(q), d.partitions + 1)
            for q, d in definitions.items()
        }
        with self._lock:
            turn = self._turns.choose(known)
        chosen = {queue: definitions[queue] for queue in turn}
        topics = self._look.look(catalog, chosen, self._heard, anew=False)
        self._ended |= {
            Subject(topic.name).queue for topic in topics.values() if topic.may_have_ended
        }
        self._ended |= {q for q in turn if not topics.keys() >= {q, Subject(q).letters}}
        again = set(turn)  # if that fails
        try:
            found = self._counts.of(chosen, topics, self._heard.reports(), now_ms)
            again = self._look.moved | self._counts.unfinished
        finally:
            with self._lock:
                self._turns.tell(again)
        return found

    def _trim(
        self, catalog: Catalog, definitions: Mapping[str, QueueDefinition], now_ms: int
    ) -> None:
        """Trim those that were looked at since the last time and in which something has ended."""
        self._ended &= definitions.keys()
        chosen = {queue: definitions[queue] for queue in self._ended}
        topics = self._look.look(catalog, chosen, self._heard, anew=True)
        with self._lock:
            self._turns.tell(self._look.moved)
        if topics:
            self._trimming.trim(catalog, topics, now_ms)
        self._ended.clear()
        for known in (self._look, self._counts, self._trimming):
            known.forget_others(definitions.keys())

    def _look_for_gone(self, now: float) -> None:
        sources = list(self._heard.sources())
        asked = self._gone.turn(sources)
        found = self._admin.describe_each(asked)
        there = {
            name: about and about[0]
            for name, about in found.items()
            if not isinstance(about, QueueError)
        }
        self.gone = self._gone.look(sources, there, now)
