"""The Spark session of the pipelines, and why its settings are what they are."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from marq.embedded import jars

_STATE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

# Hadoop runs chmod for every file it makes, several in a batch: the quick way to start a process.
_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djdk.lang.Process.launchMechanism=VFORK"

SETTINGS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
    # A state call costs little, a task some milliseconds: no more tasks than cores.
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    # Most batches are small: writing code for them took longer than to do without (a sixth of the
    # time and CPU of a batch).
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.streaming.stateStore.providerClass": _STATE,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.encodingFormat": "unsaferow",
    "spark.sql.streaming.checkpointFileManagerClass": _FILES,
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.pollingDelay": "5",
    # Its own thread per maintenance run, rarely: what is kept is small.
    "spark.sql.streaming.stateStore.maintenanceInterval": "30s",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "marq.spark.daemon",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    # The stack: a query that is stopped amid a batch matches its error, kilobytes long, with a
    # regular expression that recurses for each character; 4 MB overflowed. The quick compiler
    # only: there is little to optimise, and a start costs a third less.
    "spark.driver.extraJavaOptions": f"-Xss64m {_JAVA}",
    "spark.driver.memory": "700m",
    # On a cluster: two tasks at a time are all it has; by default it would take every core there
    # is. A task that runs twice at once fences itself: it would be harmless, and slow.
    "spark.cores.max": "2",
    "spark.executor.memory": "700m",
    "spark.executor.extraJavaOptions": _JAVA,
    "spark.speculation": "false",
    "spark.cleaner.periodicGC.interval": "10min",
    "spark.log.level": "WARN",
    "spark.executor.syncLogLevel.enabled": "true",  # executors would write pages for each batch
}


def start(master: str, name: str, local_dir: Path, more: Mapping[str, str]) -> SparkSession:
    """A session on this master; `more` wins over what is set here."""
    # Executors run the very Python that this is: the same path on every node, unless
    # PYSPARK_PYTHON or spark.pyspark.python names another.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(name)
    settings = {
        **SETTINGS,
        **(_alone(local_dir) if master.startswith("local") else {}),
        "spark.jars": ",".join(str(jar) for jar in jars.resolve("spark")),
        **more,
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _alone(local_dir: Path) -> dict[str, str]:
    """What goes for this machine only: executors elsewhere must reach the driver, and have disks
    of their own for what is not shared."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return {
        "spark.local.dir": str(local_dir),
        "spark.sql.warehouse.dir": str(local_dir / "warehouse"),
    }
