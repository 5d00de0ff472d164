"""Runs act on the executors, a task after the other; what comes back are counts."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa

from marq.core.catalog.definitions import Catalog
from marq.core.fold import batch
from marq.core.names import Space
from marq.kafka.tracker.act import report
from marq.kafka.tracker.act.perform import Act
from marq.kafka.tracker.act.tools import Tools

OUTPUT = "report binary"


@dataclass(frozen=True, slots=True)
class Acting:
    """What a task needs to act. It travels with every batch, so nothing in it may grow with the
    number of queues: above 1 MB Spark would write it to a file each time, and never remove it."""

    servers: str
    extra: tuple[tuple[str, str | int | float | bool], ...] = field(repr=False)
    namespace: str
    gone: frozenset[bytes]
    """Topics that were deleted, by id: some thousands at a time."""
    skip_newer: bool = False
    """Go on past records of a newer version."""

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Perform the batch of each partition in these rows."""
        tools = _tools(self.servers, self.extra, self.namespace, self.skip_newer)
        for frame in rows:
            for row in frame.to_pylist():
                began = time.monotonic()
                place = (row["topic"], row["partition"])
                found = batch.decode(row["batch"])
                known = tools.catalog() if found.overdue or found.due else Catalog()
                done = Act(place, found, tools, known, random.random, self.gone).perform()
                done.act_ms = round((time.monotonic() - began) * 1_000)
                yield pa.RecordBatch.from_pydict({"report": [report.encode(done)]})


@lru_cache(maxsize=64)
def _tools(
    servers: str,
    extra: tuple[tuple[str, str | int | float | bool], ...],
    namespace: str,
    skip_newer: bool,
) -> Tools:
    """One set for each namespace in each Python worker: that runs one task at a time."""
    return Tools(servers, dict(extra), Space(namespace), skip_newer)
