"""What the tracker tells Prometheus."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from marq.core.redelivery import Fate
from marq.kafka.act.report import LATENESS_MS, Report

_BATCH_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """Counters of one tracker; served on a port, if one is given."""

    def __init__(self, port: int = 0) -> None:
        registry = self.registry = CollectorRegistry()
        self._batch_s = Histogram(
            "marq_tracker_batch_seconds", "Time a batch took", buckets=_BATCH_S, registry=registry
        )
        self._act_s = Histogram(
            "marq_tracker_act_seconds",
            "Time acting took, by hold-log partition",
            buckets=_BATCH_S,
            registry=registry,
        )
        self._clock = Gauge(
            "marq_tracker_clock_seconds", "The clock of the slowest hold log", registry=registry
        )
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
        self._late = Counter(
            "marq_tracker_late",
            "Entries by how late they were found, in milliseconds at most",
            ["le"],
            registry=registry,
        )
        self._skipped = Gauge(
            "marq_tracker_skipped_records", "Records that are no markers", registry=registry
        )
        self.failures = Counter("marq_tracker_failures", "Failures of the query", registry=registry)
        for fate in Fate:
            self._fates.labels(fate.value)
        if port:
            start_http_server(port, registry=registry)

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
            for bound, number in zip((*LATENESS_MS, "+Inf"), report.late_ms, strict=True):
                if number:
                    self._late.labels(str(bound)).inc(number)
        if reports:
            self._clock.set(min(report.clock_ms for report in reports) / 1_000)
            self._claims.set(sum(report.claims for report in reports))
            self._held.set(sum(_held(report) for report in reports))
            self._skipped.set(sum(report.skipped for report in reports))


def _held(report: Report) -> int:
    return sum(report.delayed.values()) + sum(source.held for source in report.sources)
