"""Runs act on the executors, a task after the other; what comes back are counts."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from marq.core.catalog import definitions
from marq.core.catalog.definitions import Catalog, Kept
from marq.core.fold import batch
from marq.core.names import Space
from marq.kafka.tracker.act import report
from marq.kafka.tracker.act.perform import Act
from marq.kafka.tracker.act.tools import Tools

OUTPUT = "report binary"


@dataclass(frozen=True, slots=True)
class Acting:
    """What a task needs to act: how to reach the cluster, and the catalog of the moment."""

    servers: str
    extra: tuple[tuple[str, str | int | float | bool], ...]
    namespace: str
    catalog: tuple[tuple[int, bytes], ...]
    """By what version each was made, and the entry's bytes as read: what this release does not
    understand is told from what was deleted."""
    gone: frozenset[bytes]
    """Topics that were deleted, by id."""

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Perform the batch of each partition in these rows."""
        tools = _tools(self.servers, self.extra, self.namespace)
        known = Catalog(Kept(definitions.decode(value), made) for made, value in self.catalog)
        for frame in rows:
            for row in frame.to_pylist():
                began = time.monotonic()
                place = (row["topic"], row["partition"])
                found = batch.decode(row["batch"])
                done = Act(place, found, tools, known, random.random, self.gone).perform()
                done.act_ms = round((time.monotonic() - began) * 1_000)
                yield pa.RecordBatch.from_pydict({"report": [report.encode(done)]})


@lru_cache(maxsize=4)
def _tools(
    servers: str, extra: tuple[tuple[str, str | int | float | bool], ...], namespace: str
) -> Tools:
    """One set for each Python worker: it runs one task at a time."""
    return Tools(servers, dict(extra), Space(namespace))
