"""Keeps the catalog's log short: a snapshot now and then, and what it stands for is trimmed."""

from __future__ import annotations

from marq.core.catalog import reader as catalog_reader
from marq.kafka.cluster.admin import Admin
from marq.kafka.cluster.catalog_log import CatalogLog

EVERY = 1_000
"""Changes between two snapshots, or as many as there are entries: so a snapshot costs about as much
as the changes before it."""
TRIM_AFTER_MS = 7 * 86_400_000
"""How old a snapshot is when the log is trimmed to it. A release that knows no snapshots cannot
start on a trimmed log: for so long after the tracker was upgraded it still can."""


class CatalogKeeping:
    """Run by the tracker; two at once are in nobody's way."""

    def __init__(
        self,
        log: CatalogLog,
        admin: Admin,
        owner: str,
        every: int = EVERY,
        trim_after_ms: int = TRIM_AFTER_MS,
    ) -> None:
        self._log = log
        self._admin = admin
        self._owner = owner
        self._every = every
        self._trim_after_ms = trim_after_ms

    def keep(self, now_ms: int) -> None:
        """One round."""
        changes, entries = self._log.since_snapshot()
        if changes >= max(self._every, entries):
            self._log.write_snapshot(self._owner)
        to = catalog_reader.trim_to(self._log.snapshots(), now_ms - self._trim_after_ms)
        if to > self._log.start:
            self._admin.trim({(self._log.topic, 0): to})
