"""Trackers of several namespaces in one Spark application, a query each.

Namespaces do not trust each other: what ends the tracker of one (a record of a newer version, a
right that was taken away) ends no other. It is started again after a while.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession

from marq import settings, threads
from marq.spark.metrics import ByNamespace, serve
from marq.spark.tracker import Options, Superseded, Tracker, TrackerFailed, start_spark
from marq.stopping import Stopping

log = logging.getLogger("marq.tracker")

AGAIN_S = 10.0
"""After so long one that failed is started again: slowly, for it may be a password."""
_LOOK_S = 0.5

Make = Callable[[Callable[[], SparkSession]], Tracker]


class Trackers:
    """One process's trackers, by namespace."""

    def __init__(
        self,
        making: Mapping[str, Make],
        session: Callable[[], SparkSession],
        metrics: tuple[str, int] = ("127.0.0.1", 0),
    ) -> None:
        self._making = dict(making)
        self._new_session = session
        self._spark: SparkSession | None = None
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._owners = dict.fromkeys(making, "")
        """Under what name each took over last."""
        self._stopping = Stopping()
        self._failure: BaseException | None = None
        # Now, so that what is wrong with settings or rights is told at once and ends the process.
        self._found = {name: make(self._session) for name, make in self._making.items()}
        registry = CollectorRegistry()
        registry.register(ByNamespace(self._registries))
        self._server = serve(registry, *metrics)

    def _registries(self) -> dict[str, CollectorRegistry]:
        return {name: each.metrics.registry for name, each in self._found.items()}

    def run(self) -> None:
        """Keep time until told to stop; raises when others have taken over all of them, or where
        none can go on."""
        running = [
            threads.start(partial(self._keep, name), f"marq-tracker-{name}", self._failed)
            for name in self._making
        ]
        while any(thread.is_alive() for thread in running) and self._failure is None:
            if self._server is not None and not self._server.is_alive():
                raise TrackerFailed("the thread that serves metrics died")
            self._stopping.wait(_LOOK_S)
            if self.stopping:
                for thread in running:
                    thread.join()
        if self._failure is not None:
            raise TrackerFailed(f"the trackers cannot go on: {self._failure}")
        if not self.stopping:
            raise Superseded("other trackers have taken over; this one stops")

    def _keep(self, namespace: str) -> None:
        """Run one tracker, again and again."""
        about = {"namespace": namespace}
        while not self.stopping:
            try:
                # One that was replaced meanwhile must not take over again.
                self._tracker(namespace).run(after=self._owners[namespace])
            except Superseded as error:
                log.warning("stopped for good", extra={**about, "reason": str(error)})
                return
            except Exception as error:  # whatever it is, the others go on
                self._refuse_without_spark(error)
                log.error("stopped, to be started again", extra={**about, "reason": str(error)})
            finally:
                self._let_go(namespace)
            self._stopping.wait(AGAIN_S)

    def _tracker(self, namespace: str) -> Tracker:
        if namespace not in self._found:
            made = self._making[namespace](self._session)
            self._put(namespace, made)
            if self.stopping:
                made.stop()
        return self._found[namespace]

    def _let_go(self, namespace: str) -> None:
        gone = self._found.get(namespace)
        self._put(namespace, None)
        if gone is not None:
            self._owners[namespace] = gone.owner or self._owners[namespace]
            gone.close()

    def _put(self, namespace: str, tracker: Tracker | None) -> None:
        """A new mapping each time: others look at it meanwhile."""
        with self._lock:
            others = {name: each for name, each in self._found.items() if name != namespace}
            self._found = others | ({namespace: tracker} if tracker is not None else {})

    def _session(self) -> SparkSession:
        with self._starting:
            if self._spark is None:
                self._spark = self._new_session()
            return self._spark

    def _refuse_without_spark(self, error: Exception) -> None:
        """There is one Spark for all: without it nobody can be started again here."""
        if self._spark is not None and _is_dead(self._spark):
            raise error

    def _failed(self, error: BaseException) -> None:
        self._failure = error

    @property
    def keeping(self) -> dict[str, bool]:
        """Whose time is kept, as it stands behind `the tracker`."""
        found = self._found
        return {
            f" of namespace {name!r}": name in found and found[name].keeps_time
            for name in self._making
        }

    def touch(self) -> None:
        """Give signs of life beside the checkpoints."""
        for tracker in self._found.values():
            tracker.touch()

    def stop(self) -> None:
        """Ask all to end after the batch they are at."""
        self._stopping.set()
        for tracker in self._found.values():
            tracker.stop()

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def close(self) -> None:
        """Let go of everything."""
        for namespace in list(self._found):
            self._let_go(namespace)
        if self._spark is not None:
            self._spark.stop()


def made(options: Options, namespaces: list[str]) -> Tracker | Trackers:
    """The tracker of this namespace, or those of these."""
    if len(namespaces) == 1:
        return Tracker(options, settings.load(namespace=namespaces[0]))

    def one(namespace: str, session: Callable[[], SparkSession]) -> Tracker:
        own = options.checkpoint / f"of-{namespace}"  # never a name of the session's
        its = replace(options, checkpoint=own, metrics_port=0)
        return Tracker(its, settings.load(namespace=namespace), session)

    making = {each: partial(one, each) for each in namespaces}
    metrics = options.metrics_host, options.metrics_port
    return Trackers(making, lambda: start_spark(options), metrics)


def _is_dead(spark: SparkSession) -> bool:
    try:
        return bool(spark.sparkContext._jsc.sc().isStopped())
    except Exception:  # there is no JVM that answers
        return True
