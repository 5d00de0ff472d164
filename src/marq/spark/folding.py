"""The operator: one fold for each hold-log partition, its state in few packed blobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
)

from marq.core.fold import batch, hold_log, snapshot
from marq.core.fold.fold import Record, fold
from marq.core.fold.state import State
from marq.core.messages import header
from marq.errors import UnknownMarkerVersion
from marq.kafka.tracker.act.tools import passed
from marq.spark import fold_keys
from marq.spark.stored import StoredChunks, StoredShelves

OUTPUT = "topic string, partition int, batch binary"


def hold_records(records: DataFrame, partitions: int) -> DataFrame:
    """What is folded: markers as bytes, of parked messages what their first header says if it is
    ours (as `hold_log.said_of_parked` has it); and by what they are grouped."""
    first = F.col("headers")[0]
    has_headers = F.col("headers").isNotNull() & (F.size("headers") > 0)  # no size without any
    is_parked = F.col("topic").endswith(".delayed") & has_headers
    said = F.when(first["key"] == header.NAME, first["value"])

    return records.select(
        fold_keys.column(partitions).alias("fold_key"),
        "topic",
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("at_ms"),
        F.when(~is_parked, F.col("value")).alias("marker"),
        F.when(is_parked, F.coalesce(said, F.lit(b""))).alias("parked"),
    )


class Folding(StatefulProcessor):
    """Folds one hold-log partition; yields one row a batch, whatever happened.

    `watermarks` are the log's ends when the query started: below them it only catches up. `told_to`
    is this start of the query, to which all sources are told once. `skip_newer`: records of a newer
    version do not end it.
    """

    def __init__(
        self, watermarks: dict[tuple[str, int], int], told_to: int, skip_newer: bool = False
    ) -> None:
        self._watermarks = watermarks
        self._told_to = told_to
        self._newer = passed if skip_newer else hold_log.refuse

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._claims = handle.getValueState("claims", "blob binary")
        self._parked = handle.getMapState("chunks", "bucket bigint", "blob binary")
        self._idle = handle.getMapState("sources", "shelf bigint", "blob binary")

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        (topic, partition), records = _in_offset_order(rows, self._newer)
        state = self._load(records)
        chunks = state.parked.chunks = StoredChunks(self._parked)
        shelves = state.claimed.aside = StoredShelves(self._idle)
        start = state.next_offset
        fold(state, records)
        caught_up = state.next_offset >= self._watermarks.get((topic, partition), 0)
        found = batch.conclude(state, start, caught_up, turn=partition, told_to=self._told_to)
        self._claims.update((snapshot.dump(state),))
        chunks.save()
        shelves.save()
        yield pd.DataFrame(
            {"topic": [topic], "partition": [partition], "batch": [batch.encode(found)]}
        )

    def _load(self, records: list[Record]) -> State:
        stored = self._claims.get()
        if stored is None:
            return State(next_offset=records[0].offset)
        return snapshot.load(bytes(stored[0]))

    def close(self) -> None:
        pass


def _in_offset_order(
    rows: Iterator[pd.DataFrame], newer: Callable[[UnknownMarkerVersion], None]
) -> tuple[tuple[str, int], list[Record]]:
    """Of which partition they are, and the records; Spark does not order a group's rows."""
    place = ("", 0)
    found: list[Record] = []
    for frame in rows:
        topic = str(frame["topic"].iat[0])
        place = topic, int(frame["partition"].iat[0])
        columns = (frame[name].tolist() for name in ("offset", "at_ms", "marker", "parked"))
        found += [
            hold_log.record((*place, offset), at_ms, marker, parked, newer)
            for offset, at_ms, marker, parked in zip(*columns, strict=True)
        ]
    found.sort(key=lambda record: record.offset)
    return place, found
