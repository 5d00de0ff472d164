"""The tracker's query: hold logs -> fold -> act, one action a batch."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from marq.core.names import Space
from marq.spark import folding
from marq.spark.folding import Folding, hold_records

_NAME = "tracker"
MAX_OFFSETS = 200_000
"""Records of a batch: enough to catch up fast, few enough for a batch to end soon."""


@dataclass(frozen=True, slots=True)
class QuerySource:
    """How the query reaches the cluster."""

    servers: str
    space: Space
    java_settings: dict[str, str] = field(repr=False)
    skip_newer: bool = False

    @property
    def name(self) -> str:
        """The query's, of its own in each namespace."""
        return f"{_NAME}-{self.space.namespace}" if self.space.namespace else _NAME

    def options(self) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.servers,
            "subscribe": ",".join(self.space.hold_logs),
            "includeHeaders": "true",
            "startingOffsets": "earliest",
            # Data that is missing means that the checkpoint is not of this log: it is started anew.
            "failOnDataLoss": "true",
            "maxOffsetsPerTrigger": str(MAX_OFFSETS),
            "kafka.isolation.level": "read_committed",
            "kafka.allow.auto.create.topics": "false",
            # What is asked for lies there. With the default of 500 ms each partition is read only
            # when its next tick has come: 100 ms, one partition after the other.
            "kafka.fetch.max.wait.ms": "5",
            **{f"kafka.{name}": value for name, value in self.java_settings.items()},
        }


def start(
    session: SparkSession,
    source: QuerySource,
    checkpoint: str,
    watermarks: dict[tuple[str, int], int],
    run_batch: Callable[[DataFrame, int], None],
) -> StreamingQuery:
    """The running query."""
    # A pool of its own: beside another query of the session it gets its share of the tasks.
    session.sparkContext.setLocalProperty("spark.scheduler.pool", source.name)
    partitions = 1 + max(partition for _, partition in watermarks)
    records = session.readStream.format("kafka").options(**source.options()).load()
    cores = int(session.conf.get("spark.sql.shuffle.partitions") or "2")
    folded = (
        # A task costs milliseconds: one for each core, not one for each partition.
        hold_records(records.coalesce(cores), partitions)
        .groupBy("fold_key")
        .transformWithStateInPandas(
            Folding(watermarks, secrets.randbits(32), source.skip_newer),
            folding.OUTPUT,
            "Update",
            "None",
        )
    )
    return (
        folded.writeStream.queryName(source.name)
        .option("checkpointLocation", checkpoint)
        .outputMode("update")
        .foreachBatch(run_batch)
        .start()
    )
