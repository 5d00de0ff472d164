"""What the tracker tells Prometheus."""

from __future__ import annotations

import math
import random
import socket
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

pytest.importorskip("pyspark")

import marq
from marq.core.fate.redelivery import Fate
from marq.core.fold.overdue import Due
from marq.core.markers.marker import Action, ParkedRef
from marq.embedded import ports
from marq.kafka.cluster.troubles import Troubles
from marq.kafka.tracker.act.report import Report
from marq.spark.metrics import ByNamespace, Metrics, TimeTold

NOW = 1_700_000_000_000
BOUNDS = ("0.01", "0.025", "0.05", "60.0", "+Inf")


def report(**about: Any) -> Report:
    return Report("marq.markers", 0, 0, NOW, 0, 0, [], {}, **about)


def due(lapse_ms: int) -> Due:
    return Due(ParkedRef(lapse_ms, 0), Action.RELEASE, lapse_ms, tries=0, reason="")


def told(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_lateness_is_a_histogram_that_prometheus_can_take_quantiles_of() -> None:
    metrics, found = Metrics(TimeTold(lambda: NOW)), report()
    late = (10, 30, 30, 70_000)
    found.settled([due(NOW - ms) for ms in late], [Fate.COPIED] * len(late))

    metrics.batch([found], 0.2)

    buckets = {le: told(metrics, "marq_tracker_late_seconds_bucket", le=le) for le in BOUNDS}
    assert buckets == {"0.01": 1, "0.025": 1, "0.05": 3, "60.0": 3, "+Inf": 4}
    assert told(metrics, "marq_tracker_late_seconds_count") == len(late)
    assert told(metrics, "marq_tracker_late_seconds_sum") == pytest.approx(sum(late) / 1_000)
    assert told(metrics, "marq_tracker_messages_total", fate="copied") == len(late)


def test_lag_goes_on_growing_while_no_batch_comes_to_an_end() -> None:
    clock = [NOW]
    metrics = Metrics(TimeTold(lambda: clock[0]))
    unknown = told(metrics, "marq_tracker_lag_seconds")
    assert unknown is not None and math.isnan(unknown)
    metrics.batch([report()], 0.2)

    clock[0] += 45_000

    assert told(metrics, "marq_tracker_lag_seconds") == 45


def test_only_this_machine_may_ask_unless_an_address_is_named() -> None:
    (port,) = ports.choose(1, random.Random())
    assert Metrics(TimeTold(lambda: NOW), port).served

    with socket.create_connection(("127.0.0.1", port), 5):
        pass
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.2", port), 5)


def test_failures_of_housekeeping_are_told() -> None:
    metrics, troubles = Metrics(TimeTold(lambda: NOW)), Troubles()
    metrics.count(troubles)

    troubles.tell("counting 'orders'", ValueError())

    assert told(metrics, "marq_tracker_housekeeping_failures_total") == 1


def test_a_port_that_is_taken_is_a_clear_error() -> None:
    (port,) = ports.choose(1, random.Random())
    with socket.socket() as taken:
        taken.bind(("", port))
        taken.listen(1)

        with pytest.raises(marq.ConfigError, match=f"port {port} .*--metrics-port"):
            Metrics(TimeTold(lambda: NOW), port)


def test_trackers_of_several_namespaces_tell_theirs_under_their_names() -> None:
    pay, ship = Metrics(TimeTold(lambda: NOW)), Metrics(TimeTold(lambda: NOW))
    pay.batch([report(put_off=2)], 0.2)
    ship.batch([report()], 0.2)
    registry = CollectorRegistry()

    registry.register(ByNamespace(lambda: {"pay": pay.registry, "ship": ship.registry}))

    found = [
        registry.get_sample_value("marq_tracker_put_off_total", {"namespace": name})
        for name in ("pay", "ship")
    ]
    names = [family.name for family in registry.collect()]
    assert (found, len(names)) == ([2, 0], len(set(names)))
