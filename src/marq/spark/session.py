"""The Spark session of the pipelines, and why its settings are what they are."""

from __future__ import annotations

import atexit
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from marq.embedded.jvm import jars
from marq.spark.own_directory import OwnDirectory

_STATE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

_SQL_METRICS = "org.apache.spark.sql.execution.ui.SQLAppStatusListener"

_STATE_SERVER = (
    "org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkStateServer"
)

_SECRET = "(?i)secret|password|passphrase|token|jaas|access[.]?key|keystore[.]key|url"

# Hadoop runs chmod for every file it makes, several in a batch: the quick way to start a process.
_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djdk.lang.Process.launchMechanism=VFORK"

SETTINGS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.scheduler.allocation.file": str(Path(__file__).with_name("pools.xml")),
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
    # The Kafka settings go to tasks and into plans, and plans into errors and logs.
    "spark.redaction.regex": _SECRET,
    "spark.sql.redaction.options.regex": _SECRET,
}


LOCAL = "local[2]"
_LOCAL = re.compile(r"local(\[.*\])?")
_LOOPBACK = "127.0.0.1"
_SHORT = 55
"""The name of a socket has at most 104 characters on some systems, and Spark's own part 42."""


def start(master: str, name: str, local_dir: Path, more: Mapping[str, str]) -> SparkSession:
    """A session on this master; `more` wins over what is set here.

    No master: the one spark-submit was given, else this machine.
    """
    # Executors run the very Python that this is: the same path on every node, unless
    # PYSPARK_PYTHON or spark.pyspark.python names another.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    needed = [str(jar) for jar in jars.resolve("spark")]
    temporary = _own(Path(tempfile.gettempdir()), "marq-")
    settings = {**SETTINGS, **_place(master, submitted, local_dir, temporary)}
    if not submitted:
        settings["spark.jars"] = ",".join(needed)
        settings["spark.driver.extraJavaOptions"] += f" -Djava.io.tmpdir={temporary}"
    builder = SparkSession.builder.appName(name)
    for key, value in {**settings, **more}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    # It warns of each key that is asked for and not there, hundreds at a start.
    _quieten(session, _STATE_SERVER)
    if submitted:
        _bring(session, needed)
    return session


def _own(parent: Path, prefix: str) -> Path:
    """What Spark leaves here goes when this process ends, or when the next one starts."""
    directory = OwnDirectory(parent, prefix)
    atexit.register(directory.remove)
    return directory.path


def _bring(session: SparkSession, needed: list[str]) -> None:
    """Give a JVM that ran already the jars it was started without."""
    for jar in needed:
        session.sql(f"ADD JAR '{jar}'")
    # It looks for their metrics elsewhere, in vain, and writes pages about it at every batch.
    _quieten(session, _SQL_METRICS)


def _quieten(session: SparkSession, logger: str) -> None:
    """Hear nothing of it but errors."""
    log4j = session.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    log4j.core.config.Configurator.setLevel(logger, log4j.Level.ERROR)


def _place(master: str, submitted: bool, local_dir: Path, temporary: Path) -> dict[str, str]:
    """Where it runs. What goes for this machine only is left away where others take part: executors
    elsewhere must reach the driver, and have disks of their own for what is not shared."""
    found = {"spark.master": master or LOCAL} if master or not submitted else {}
    is_local = _LOCAL.fullmatch(found.get("spark.master") or _submitted_master())
    return {**found, **(_alone(local_dir, temporary) if is_local else {})}


def _submitted_master() -> str:
    """The master that spark-submit was given."""
    SparkContext._ensure_initialized()
    return SparkConf().get("spark.master", "")


def _alone(local_dir: Path, temporary: Path) -> dict[str, str]:
    """Nobody else takes part: other machines cannot reach it, and other users of this one, who can,
    are asked for a secret that only this process knows. Else they could fetch what goes to tasks,
    the Kafka password among it, and read what lies in files."""
    os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    local_dir.mkdir(parents=True, exist_ok=True)
    local_dir.chmod(0o700)
    short = len(str(temporary)) <= _SHORT
    return {
        **({"spark.python.unix.domain.socket.dir": str(temporary)} if short else {}),
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.host": _LOOPBACK,
        "spark.authenticate": "true",
        "spark.local.dir": str(_own(local_dir, "run-")),
        "spark.sql.warehouse.dir": str(local_dir / "warehouse"),
    }
