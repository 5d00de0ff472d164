"""The tracker's housekeeping without Spark: the same folds, made by reading the logs."""

from __future__ import annotations

from marq import embedded
from marq.core import names
from marq.core.fold import batch
from marq.kafka.backend import Kafka
from marq.kafka.client import config
from marq.kafka.client.seeker import Seeker
from marq.kafka.cluster.admin import Admin
from marq.kafka.cluster.stats_log import StatsWriter
from marq.kafka.tracker.act import report
from marq.kafka.tracker.housekeeping import Keeping, Readers
from marq.kafka.tracker.trimming import YOUNG_MS


class House:
    """What a tracker's driver keeps, a round at a time; to it all records are old."""

    def __init__(self, kafka: embedded.Runtime, backend: Kafka) -> None:
        self.backend = backend
        self.admin: Admin = backend.admin
        self.space = backend.space
        self.catalog = backend.catalog
        self.recent_catalog = backend.catalog
        self.later_ms = YOUNG_MS + 1_000
        servers = kafka.bootstrap_servers
        self._readers = Readers(
            Seeker(config.reader(servers, {})), Seeker(config.glancing(servers, {}))
        )
        self._writer = StatsWriter(
            config.producer(servers, {}, 0), config.reader(servers, {}), names.STATS
        )
        self.keeping = self.anew()

    def anew(self) -> Keeping:
        """Another tracker's, that knows nothing yet."""
        self.keeping = Keeping(self, self._readers, self._writer, self._now_ms)
        return self.keeping

    def _now_ms(self) -> int:
        return self.backend.now_ms() + self.later_ms

    def fold(self) -> None:
        """Take what the folds say now, as a batch would report it; nothing is acted on."""
        number = self.backend.markers_partitions
        reports = []
        for partition, state in enumerate(self.backend.reader.folded(names.MARKERS, number)):
            found = batch.conclude(state, state.next_offset, caught_up=False)
            reports.append(report.of(names.MARKERS, partition, found))
        self.keeping.take(reports)

    def keep(self) -> None:
        """A round that trims."""
        self.keeping._trimmed_at = float("-inf")
        self.keeping.keep()
