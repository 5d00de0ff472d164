"""Fills an ordered group's topic from its queue by a streaming query: once and in order.

No shuffle: one task is one partition of the queue, in order of its offsets. `minPartitions` and
`maxRecordsPerPartition` would cut a partition into several tasks: never set them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from marq.core.messages.stored import Stored
from marq.errors import ConfigError, QueueError
from marq.groups.config import GroupConfig
from marq.groups.names import GroupNames
from marq.kafka.backend import Kafka
from marq.kafka.groups.backlog import Backlog
from marq.kafka.groups.clients import GroupClients, cluster_of
from marq.kafka.groups.copying import Copier, copied
from marq.spark import session
from marq.spark.java_settings import java_settings
from marq.stopping import Stopping

_CHUNK = 5_000
_FULL_S = 0.2
MAX_OFFSETS = 200_000

Extra = tuple[tuple[str, str | int | float | bool], ...]


@dataclass(frozen=True, slots=True)
class Copying:
    """What a task needs to copy its partition; sent to the executors."""

    servers: str
    extra: Extra = field(repr=False)
    names: GroupNames
    config: GroupConfig
    sources: tuple[int, ...]
    purged: tuple[tuple[str, int], ...]

    def __call__(self, rows: Iterator[Any]) -> None:
        """Copy the rows of one task."""
        for partition, found in groupby(rows, key=lambda row: row["partition"]):
            self._copy(partition, (_stored(self.names.queue, row) for row in found))

    def _copy(self, partition: int, records: Iterator[Stored]) -> None:
        cluster = self.cluster()
        with closing(cluster.copy_offsets(self.names)) as offsets:
            group = offsets.consumer_group_metadata
            with closing(Copier(cluster, self.names, self.config, partition, group)) as copier:
                # After the fence: whoever copied before cannot add to this any more.
                done = copied(offsets, self.names, partition, cluster.timeout_s)
                done = self.sources[partition] if done is None else done
                while chunk := list(islice(records, _CHUNK)):
                    done = copier.copy(chunk, done, dict(self.purged))

    def cluster(self) -> GroupClients:
        return cluster_of(self.servers, dict(self.extra))


def start(
    spark: SparkSession, copying: Copying, checkpoint: str, java: dict[str, str]
) -> StreamingQuery:
    """The running query. A checkpoint that is lost costs time, nothing else."""
    options = {
        "kafka.bootstrap.servers": copying.servers,
        "subscribe": copying.names.queue,
        "includeHeaders": "true",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(MAX_OFFSETS),
        "kafka.isolation.level": "read_committed",
        "kafka.allow.auto.create.topics": "false",
        **{f"kafka.{name}": value for name, value in java.items()},
    }
    backlog = Backlog(copying.cluster().admin, copying.names, copying.config)

    def run_batch(records: DataFrame, number: int) -> None:
        while backlog.is_full():
            time.sleep(_FULL_S)
        records.foreachPartition(copying)

    records = spark.readStream.format("kafka").options(**options).load()
    return (
        source_records(records)
        .writeStream.queryName(f"group {copying.names.base}")
        .option("checkpointLocation", checkpoint)
        .foreachBatch(run_batch)
        .start()
    )


def source_records(records: DataFrame) -> DataFrame:
    """What is copied of a message, and where it lies."""
    return records.select(
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("at_ms"),
        "key",
        "value",
        "headers",
    )


def _stored(topic: str, row: Any) -> Stored:
    headers = tuple((each["key"], _bytes(each["value"])) for each in row["headers"] or ())
    return Stored(
        topic,
        row["partition"],
        row["offset"],
        row["at_ms"],
        _bytes(row["key"]),
        _bytes(row["value"]),
        headers,
    )


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def copying_of(kafka: Kafka, names: GroupNames) -> Copying:
    """What the tasks of a group's router need, as things are now."""
    table = kafka.groups().table(names)
    if table.config is None or table.config.kind == "static":
        raise ConfigError("a static group reads the queue itself: there is nothing to copy")
    if table.config.router != "spark":
        raise ConfigError('the members of this group copy: create it with router="spark"')
    purged = tuple(kafka.definition(names.queue).purged.items())
    extra = tuple(kafka.extra.items())
    return Copying(kafka.servers, extra, names, table.config, table.sources, purged)


def run(kafka: Kafka, names: GroupNames, checkpoint: Path, master: str, stopping: Stopping) -> None:
    """Copy until told to stop; raises where the query fails."""
    copying = copying_of(kafka, names)
    spark = session.start(master, "marq group router", checkpoint / "scratch", {})
    try:
        java = java_settings(dict(copying.extra))
        query = start(spark, copying, str(checkpoint / "query"), java)
        while not stopping.wait(0.2) and query.isActive:
            pass
        if query.isActive:
            query.stop()
        elif (error := query.exception()) is not None:
            raise QueueError(f"copying ended: {error}")
    finally:
        spark.stop()
