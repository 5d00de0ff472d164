"""Keeps the house, once a second: counts of queues, and topics that do not grow for ever."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence

from marq.core import names
from marq.core.catalog import Catalog
from marq.core.counting import SourceCount
from marq.errors import QueueError
from marq.groups import names as groups
from marq.kafka.act.report import Report
from marq.kafka.act.seeker import Place, Seeker
from marq.kafka.admin import Admin
from marq.kafka.depths import Depths
from marq.kafka.gone import Gone
from marq.kafka.queue_counts import QueueCounts, Topic
from marq.kafka.stats_log import StatsWriter

log = logging.getLogger("marq.tracker")

EVERY_S = 0.5
TRIM_EVERY_S = 10.0
COMMIT_EVERY_S = 86_400.0
"""Offsets of a group without members are forgotten after seven days."""


class Keeping:
    """What the tracker's driver does beside the query."""

    def __init__(
        self,
        admin: Admin,
        catalog: Callable[[], Catalog],
        seeker: Seeker,
        writer: StatsWriter,
        now_ms: Callable[[], int | None],
        chores: Sequence[Callable[[int], None]] = (),
    ) -> None:
        self._chores = chores
        """What else is to be done now and then; told the log's time."""
        self._now_ms = now_ms
        self._admin = admin
        self._catalog = catalog
        self._counts = QueueCounts(Depths(seeker), Depths(seeker))
        self._writer = writer
        self._reports: dict[Place, Report] = {}
        self._trims: dict[Place, int] = {}
        self._ids: dict[tuple[str, int], bytes] = {}
        """Topic ids, by name and the version of the queue: a queue made again has another."""
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._trimmed_at = self._committed_at = 0.0
        self._gone = Gone()
        self.gone: frozenset[bytes] = frozenset()
        """Ids of topics that were deleted."""
        self._thread = threading.Thread(target=self._run, name="marq-keeping", daemon=True)

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
                place = (report.topic, report.partition)
                self._reports[place] = report
                if report.trim_to:
                    self._trims[place] = report.trim_to

    def _run(self) -> None:
        while not self._stopping.wait(EVERY_S):
            try:
                self.keep()
            except QueueError as error:  # a broker is away: later
                log.info("keeping house waits", extra={"error": str(error)})
            except Exception:
                log.exception("keeping house failed")

    def keep(self) -> None:
        """One round."""
        with self._lock:
            reports, trims = dict(self._reports), self._trims
            self._trims = {}
        if not reports:
            return
        # The restatements that make this safe are in the log: act wrote them before it reported.
        self._admin.trim(trims)
        catalog = self._catalog()
        sources = {
            (s.topic_id, s.partition): s for report in reports.values() for s in report.sources
        }
        topics = self._topics(catalog, sources)
        # By the log's clock now; the folds are a batch behind.
        now_ms = self._now_ms() or max(report.clock_ms for report in reports.values())
        self._writer.write(self._counts.of(catalog, topics, reports.values(), now_ms), now_ms)
        now = time.monotonic()
        if now >= self._trimmed_at + TRIM_EVERY_S or not self._trimmed_at:
            self._trimmed_at = now
            self._trim_queues(catalog, topics, now_ms)
            self._look_for_gone(sources.values(), now)
            for chore in self._chores:
                chore(now_ms)
        if now >= self._committed_at + COMMIT_EVERY_S or not self._committed_at:
            self._committed_at = now
            self._commit_idle(catalog)

    def _topics(
        self, catalog: Catalog, sources: dict[tuple[bytes, int], SourceCount]
    ) -> dict[str, Topic]:
        wanted: dict[str, int] = {}
        for queue, definition in catalog.definitions():
            wanted |= {queue: definition.partitions, names.dead_letters(queue): 1}
        spans = self._admin.spans(wanted)
        found: dict[str, Topic] = {}
        for name, partitions in wanted.items():
            topic_id = self._topic_id(catalog, name)
            places = [(name, number) for number in range(partitions)]
            if topic_id is not None and all(place in spans for place in places):
                counts = [sources.get((topic_id, number)) for number in range(partitions)]
                found[name] = Topic(name, [spans[place] for place in places], counts)
        return found

    def _topic_id(self, catalog: Catalog, name: str) -> bytes | None:
        queue = name.removeprefix(names.dead_letters(""))
        key = (name, catalog.version("queue", queue))
        if key not in self._ids:
            described = self._admin.describe(name)
            if described is None:
                return None
            self._ids[key] = described[0]
        return self._ids[key]

    # Trimming.

    def _trim_queues(self, catalog: Catalog, topics: dict[str, Topic], now_ms: int) -> None:
        """Delete what has ended: never an unacked message, whatever its age."""
        ends: dict[Place, int] = {}
        kept_from: dict[Place, int] = {}
        for topic in topics.values():
            definition = catalog.of_topic(topic.name)
            for number, (start, _) in enumerate(topic.spans):
                count = topic.counts[number]
                end = count.settled_to(start) if count else start
                if definition is not None and end > start:
                    ends[topic.name, number] = end
                    if definition.retention_ms:
                        kept_from[topic.name, number] = now_ms - definition.retention_ms
        for place, offset in self._needed_by_groups(topics).items():
            if place in ends:
                ends[place] = min(ends[place], offset)
        kept = self._admin.offsets_at(kept_from)
        for place in kept_from:
            offset = kept.get(place, 0)  # nobody can tell now: keep it all
            ends[place] = ends[place] if offset < 0 else min(ends[place], offset)
        self._admin.trim(ends)

    def _needed_by_groups(self, topics: dict[str, Topic]) -> dict[Place, int]:
        """From where on an ordered group still needs its queue: it reads it beside the workers.

        A group that has committed nothing yet needs all of it.
        """
        needed: dict[Place, int] = {}
        for group in filter(None, map(groups.of_topic, self._admin.topics())):
            topic = topics.get(group.queue)
            if topic is None:
                continue
            number = len(topic.spans)
            copied = self._admin.committed(group.copied, topic.name, number)
            acked = self._admin.committed(group.offsets, topic.name, number)
            for partition, offsets in enumerate(zip(copied, acked, strict=True)):
                place = (topic.name, partition)
                needed[place] = min(max(0, *offsets), needed.get(place, 1 << 62))
        return needed

    def _look_for_gone(self, sources: Collection[SourceCount], now: float) -> None:
        found = self._admin.describe_all({source.queue for source in sources})
        there = {name: about and about[0] for name, about in found.items()}
        self.gone = self._gone.look(sources, there, now)

    def _commit_idle(self, catalog: Catalog) -> None:
        """Commit again what idle groups have committed, lest it be forgotten; a group with members
        refuses, and needs no help."""
        for queue, definition in catalog.definitions():
            group = names.consumer_group(queue)
            try:
                offsets = self._admin.committed(group, queue, definition.partitions)
                if all(offset >= 0 for offset in offsets):
                    self._admin.commit(group, queue, offsets)
            except QueueError as error:
                log.debug("not committed again", extra={"queue": queue, "error": str(error)})
