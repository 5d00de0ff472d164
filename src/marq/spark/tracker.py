"""The tracker: keeps time for all queues of a cluster.

One process, the driver: it ticks, runs the query and keeps the house. What dies is started again,
here or by whoever started the process; whatever the moment, the log says what was done.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from marq.errors import NotConnected, QueueError
from marq.kafka.backend import Kafka
from marq.kafka.client import config
from marq.kafka.client.seeker import Seeker
from marq.kafka.cluster.stats_log import StatsWriter
from marq.kafka.groups.keeping import GroupKeeping
from marq.kafka.tracker import ownership
from marq.kafka.tracker.act import report
from marq.kafka.tracker.catalog_keeping import CatalogKeeping
from marq.kafka.tracker.housekeeping import Keeping, Readers
from marq.kafka.tracker.ticks import Ticks
from marq.settings import Settings
from marq.spark import acting, pipeline, session
from marq.spark.acting import Acting
from marq.spark.checkpoint import Checkpoints, blames_checkpoint
from marq.spark.java_settings import java_settings
from marq.spark.metrics import Metrics, TimeTold
from marq.spark.pulse import Pulse
from marq.spark.resting import Resting
from marq.stopping import Stopping

log = logging.getLogger("marq.tracker")

LOOK_S = 0.2
MAX_FAILURES = 5
"""Failures of the query in a row, without a batch between them, before the process gives up."""
_BACKOFF_S = 1.0
_DENIED = re.compile(
    r"the cluster refuses the credentials or rights.*"
    r"|errors\.\w*(?:Authorization|Authentication)Exception.*"
)
"""What an act, or Spark's Kafka client, says of rights and credentials; trying again changes
nothing, and a new checkpoint neither."""
_TAKEN_OVER = "another tracker has taken over; this one stops"


def start_spark(options: Options) -> SparkSession:
    """The session of a tracker's query."""
    scratch = options.checkpoint / "scratch"
    return session.start(options.master, "marq tracker", scratch, options.spark or {})


class Superseded(QueueError):
    """Another tracker has taken over: this one must not run."""


class TrackerFailed(QueueError):
    """The query cannot be kept running."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a tracker is run."""

    servers: str
    checkpoint: Path
    master: str = ""
    """None: this machine, or the one spark-submit was given."""
    tick_s: float = 0.1
    metrics_port: int = 0
    """0: no metrics."""
    metrics_host: str = "127.0.0.1"
    spark: dict[str, str] | None = None
    skip_newer: bool = False
    """Go on past what a newer marq wrote to the hold logs, or someone who is none."""


class Tracker:
    """The tracker of one namespace; `session`: the one that several share, else it has its own."""

    def __init__(
        self,
        options: Options,
        settings: Settings,
        session: Callable[[], SparkSession] | None = None,
    ) -> None:
        self._options = options
        self._shared = session
        self._extra = dict(settings.kafka)
        self._kafka = Kafka(options.servers, settings, by_tracker=True)
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self.owner = ""
        """Under what name it has taken over."""
        self._checkpoints = Checkpoints(options.checkpoint)
        self._producer = config.producer(options.servers, self._extra, 0)
        self._places = self._hold_logs()
        self._batches = 0
        self._stopping = Stopping()
        self._spark: SparkSession | None = None
        self._query: StreamingQuery | None = None
        self.ready = threading.Event()
        """Set when the first batch has been acted on."""
        self._ticks = Ticks(self._producer, self._places, options.tick_s)
        self._pulse = Pulse()
        self._resting = Resting(self._ticks, self._pulse, self._stopping)
        clocks = TimeTold(self._ticks.clock.known_ms, lambda: self._resting.clock_ms)
        self.metrics = Metrics(clocks, options.metrics_port, options.metrics_host)
        self._keeping = Keeping(
            self._kafka,
            Readers(
                Seeker(config.reader(options.servers, self._extra)),
                Seeker(config.glancing(options.servers, self._extra)),
            ),
            StatsWriter(
                self._producer,
                config.reader(options.servers, self._extra),
                self._kafka.space.stats,
            ),
            self._ticks.clock.known_ms,
            lambda: self.keeps_time,
            chores=[
                CatalogKeeping(self._kafka.catalog_log, self._kafka.admin, self._owner).keep,
                GroupKeeping(self._kafka).keep,
            ],
        )

        self.metrics.count(self._keeping.troubles)

    def _hold_logs(self) -> list[tuple[str, int]]:
        number = self._kafka.markers_partitions
        return [(topic, n) for topic in self._kafka.space.hold_logs for n in range(number)]

    def run(self, after: str = "") -> None:
        """Keep time until told to stop; raises where it cannot. `after`: goes on for this owner,
        if nobody has taken over from that one."""
        if after and not ownership.is_owner(self._kafka.catalog(), after):
            raise Superseded(_TAKEN_OVER)
        ownership.take_over(self._kafka.catalog_log, self._owner)
        self.owner = self._owner
        # Before Spark is up, which takes seconds: nobody shall wait for a dead one's transaction.
        ownership.end_open_transactions(self._producer, self._kafka.space, self._places)
        self._ticks.start()
        self._keeping.start()
        self._spark = self._session()
        self._keep_running(self._spark)

    @property
    def keeps_time(self) -> bool:
        """Whether a query runs and made every batch that was due."""
        return self._pulse.beats

    @property
    def keeping(self) -> dict[str, bool]:
        """Whose time is kept, as it stands behind `the tracker`: there is but one here."""
        return {"": self.keeps_time}

    def touch(self) -> None:
        """Give a sign of life beside the checkpoint, while it keeps time."""
        if self.keeps_time:
            with contextlib.suppress(OSError):  # a full disk: the log tells more
                (self._options.checkpoint / "alive").touch()

    def stop(self) -> None:
        """Ask it to end after the batch it is at."""
        self._stopping.set()
        self._ticks.wake()

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def close(self) -> None:
        """Let go of everything, in the order it is needed; Spark may take its time."""
        self._ticks.stop()
        self._keeping.stop()
        if self._spark is not None and self._shared is None:
            self._spark.stop()
        elif self._query is not None:
            self._query.stop()
        self._kafka.close()

    def _session(self) -> SparkSession:
        return self._shared() if self._shared is not None else start_spark(self._options)

    def _keep_running(self, spark: SparkSession) -> None:
        failures = 0
        while not self._stopping.is_set():
            batches = self._batches
            error = self._run_query(spark)
            if error is None:
                return
            self._refuse_to_go_on(error)
            failures = 1 if self._batches > batches else failures + 1
            self.metrics.failures.inc()
            if failures >= MAX_FAILURES:
                raise TrackerFailed(f"the query failed {failures} times in a row: {error}")
            if blames_checkpoint(error) or failures > 1:
                log.warning("starting from a new checkpoint", extra={"error": error})
                self._checkpoints.give_up()
            else:
                log.warning("the query failed, starting it again", extra={"error": error})
            self._stopping.wait(_BACKOFF_S * failures)

    def _refuse_to_go_on(self, error: str) -> None:
        if not self._is_owner():
            raise Superseded(_TAKEN_OVER)
        if found := _DENIED.search(error):
            raise TrackerFailed(f"the query may not go on: {found[0]}")
        if "UnknownMarkerVersion" in error:
            raise TrackerFailed(
                f"a newer marq wrote to the log: upgrade the tracker first, or, if it was no marq, "
                f"start it with --skip-newer: {error}"
            )

    def _refuse_to_go_without(self) -> None:
        """End with an error where a part of it has died: time would stand still, or topics grow,
        and nobody would see it."""
        parts = {"ticks": self._ticks.failure, "housekeeping": self._keeping.failure}
        for part, failure in parts.items():
            if isinstance(failure, QueueError):
                raise failure  # a right is missing
            if failure is not None:
                raise TrackerFailed(f"the thread of {part} died: {failure!r}")
        if not self.metrics.served:
            raise TrackerFailed("the thread that serves metrics died")

    def _is_owner(self) -> bool:
        try:
            return ownership.is_owner(self._kafka.recent_catalog(), self._owner)
        except NotConnected:
            return True  # nobody can tell now

    def _run_query(self, spark: SparkSession) -> str | None:
        """Run the query until it ends; why it failed, or None if it was told to stop."""
        try:
            query = self._query = self._start(spark)
        except Exception as error:  # py4j and Spark have errors of many kinds
            return str(error)
        while query.isActive:
            self._refuse_to_go_without()
            if self._stopping.wait(LOOK_S) or not self._is_owner():
                self.stop()  # it rests in a batch, and ends with that
                query.stop()
                break
        self._pulse.stopped()
        if not self._is_owner():
            raise Superseded(_TAKEN_OVER)
        failed = query.exception()
        return None if failed is None or self._stopping.is_set() else str(failed)

    def _start(self, spark: SparkSession) -> StreamingQuery:
        admin, number = self._kafka.admin, self._kafka.markers_partitions
        ends = {
            (topic, partition): end
            for topic in self._kafka.space.hold_logs
            for partition, end in enumerate(admin.ends(topic, number))
        }
        logs = admin.describe_all(self._kafka.space.hold_logs)
        self._checkpoints.use_for(" ".join(about[0].hex() for about in logs.values() if about))
        source = pipeline.QuerySource(
            self._options.servers,
            self._kafka.space,
            java_settings(self._extra),
            self._options.skip_newer,
        )
        self._resting.begin()
        return pipeline.start(spark, source, str(self._checkpoints.current), ends, self._batch)

    def _batch(self, frame: DataFrame, number: int) -> None:
        """One batch: act on the executors, counts come back."""
        began = time.monotonic()
        act = Acting(
            self._options.servers,
            tuple(self._extra.items()),
            self._kafka.space.namespace,
            self._keeping.gone,
            self._options.skip_newer,
        )
        rows: list[Any] = frame.mapInArrow(act, acting.OUTPUT).collect()
        reports = [report.decode(bytes(row.report)) for row in rows]
        self._keeping.take(reports)
        self.metrics.batch(reports, time.monotonic() - began)
        self._batches += 1
        self.ready.set()
        self._resting.after(reports)
