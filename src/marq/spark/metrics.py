"""What the tracker tells Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from threading import Thread
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from marq.core.fate.redelivery import Fate
from marq.errors import ConfigError
from marq.kafka.cluster.troubles import Troubles
from marq.kafka.tracker.act.report import LATENESS_MS, Report

_BATCH_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Lateness(Collector):
    """A histogram of what executors have counted: it comes by the bucket, not one by one."""

    def __init__(self) -> None:
        self._counts = [0] * (len(LATENESS_MS) + 1)
        self._sum_ms = 0

    def add(self, report: Report) -> None:
        self._counts = [mine + new for mine, new in zip(self._counts, report.late_ms, strict=True)]
        self._sum_ms += report.late_sum_ms

    def collect(self) -> Iterable[HistogramMetricFamily]:
        bounds = (*(str(ms / 1_000) for ms in LATENESS_MS), "+Inf")
        yield HistogramMetricFamily(
            "marq_tracker_late_seconds",
            "How long after they lapsed entries were found",
            list(zip(bounds, accumulate(self._counts), strict=True)),
            self._sum_ms / 1_000,
        )


class _Failures(Collector):
    """How often housekeeping failed at something."""

    def __init__(self, troubles: Troubles) -> None:
        self._troubles = troubles

    def collect(self) -> Iterable[CounterMetricFamily]:
        yield CounterMetricFamily(
            "marq_tracker_housekeeping_failures",
            "Failures of counting and trimming, of one queue or of all",
            self._troubles.number,
        )


class TimeTold(NamedTuple):
    """What it is told by, whenever it is asked."""

    now_ms: Callable[[], int | None]
    """The log's clock."""
    rested_ms: Callable[[], int] = lambda: 0
    """How far the hold logs are known to have nothing to be read, while no batch is made."""


class ByNamespace(Collector):
    """What the trackers of several namespaces tell, each under its namespace."""

    def __init__(self, registries: Callable[[], Mapping[str, CollectorRegistry]]) -> None:
        self._registries = registries

    def collect(self) -> Iterable[Metric]:
        found: dict[str, Metric] = {}
        for namespace, registry in self._registries().items():
            for family in registry.collect():
                about = (family.name, family.documentation, family.type)
                samples = found.setdefault(family.name, Metric(*about)).samples
                samples += [
                    each._replace(labels={**each.labels, "namespace": namespace})
                    for each in family.samples
                ]
        return found.values()


def serve(registry: CollectorRegistry, host: str, port: int) -> Thread | None:
    """The thread that answers whoever asks there; port 0: nobody can ask."""
    if not port:
        return None
    try:
        return start_http_server(port, addr=host, registry=registry)[1]
    except OSError as error:
        raise ConfigError(
            f"metrics cannot be served at {host}, port {port} ({error.strerror or error}): "
            "name another one with --metrics-port"
        ) from None


class Metrics:
    """Counters of one tracker; served on a port, if one is given."""

    def __init__(self, clocks: TimeTold, port: int = 0, host: str = "127.0.0.1") -> None:
        registry = self.registry = CollectorRegistry()
        self._clocks = clocks
        self._read_ms = 0
        self._batch_s = Histogram(
            "marq_tracker_batch_seconds", "Time a batch took", buckets=_BATCH_S, registry=registry
        )
        self._act_s = Histogram(
            "marq_tracker_act_seconds",
            "Time acting took, by hold-log partition",
            buckets=_BATCH_S,
            registry=registry,
        )
        Gauge(
            "marq_tracker_clock_seconds", "The clock of the slowest hold log", registry=registry
        ).set_function(lambda: self._clock_ms / 1_000)
        Gauge(
            "marq_tracker_lag_seconds",
            "How far that is behind the log's clock now, whatever this machine's clock says",
            registry=registry,
        ).set_function(self._lag_s)
        self._claims = Gauge("marq_tracker_open_claims", "Claims that are open", registry=registry)
        self._held = Gauge(
            "marq_tracker_holds", "Messages parked or waiting for a retry", registry=registry
        )
        self._fates = Counter(
            "marq_tracker_messages", "What became of messages", ["fate"], registry=registry
        )
        self._overtaken = Counter(
            "marq_tracker_overtaken", "Events an ack or claim had overtaken", registry=registry
        )
        self._put_off = Counter(
            "marq_tracker_put_off", "Events that could not be performed yet", registry=registry
        )
        self._failed = Counter(
            "marq_tracker_failed_events",
            "Events that could not be worked out: buried as they were, or put off",
            registry=registry,
        )
        self._late = Lateness()
        registry.register(self._late)
        self._skipped = Gauge(
            "marq_tracker_skipped_records", "Records that are no markers", registry=registry
        )
        self.failures = Counter("marq_tracker_failures", "Failures of the query", registry=registry)
        for fate in Fate:
            self._fates.labels(fate.value)
        self._server = serve(registry, host, port)

    @property
    def served(self) -> bool:
        """Whether whoever asks is answered, if that was wanted."""
        return self._server is None or self._server.is_alive()

    def count(self, troubles: Troubles) -> None:
        """Tell how often housekeeping failed at something."""
        self.registry.register(_Failures(troubles))

    def batch(self, reports: Iterable[Report], took_s: float) -> None:
        """Count one batch."""
        reports = list(reports)
        self._batch_s.observe(took_s)
        for report in reports:
            if report.act_ms:
                self._act_s.observe(report.act_ms / 1_000)
            for fate, number in report.fates.items():
                self._fates.labels(fate).inc(number)
            self._overtaken.inc(report.overtaken)
            self._put_off.inc(report.put_off)
            self._failed.inc(report.failed)
            self._late.add(report)
        if reports:
            self._read_ms = min(report.clock_ms for report in reports)
            self._claims.set(sum(report.claims for report in reports))
            self._held.set(sum(_held(report) for report in reports))
            self._skipped.set(sum(report.skipped for report in reports))

    @property
    def _clock_ms(self) -> int:
        return max(self._read_ms, self._clocks.rested_ms())

    def _lag_s(self) -> float:
        now_ms = self._clocks.now_ms()
        return (now_ms - self._clock_ms) / 1_000 if now_ms and self._clock_ms else float("nan")


def _held(report: Report) -> int:
    return sum(report.delayed.values()) + sum(source.held for source in report.sources)
