"""The benchmark on a real broker, with as few messages as it takes; no speed is asserted."""

from __future__ import annotations

import pytest

from marq import embedded
from marq.bench import latency, run, summary
from marq.bench.plan import OURS, Plan

pytestmark = [pytest.mark.java, pytest.mark.kafka]

PLAN = Plan(
    messages=3_000,
    rounds=1,
    stocks=((100, "small"),),
    variants=("bare", "share", "pull", "pair", "batch", "handler"),
    held=1_000,
)


def test_every_variant_gets_all_messages_and_the_log_has_them_acked(
    kafka: embedded.Runtime,
) -> None:
    said: list[str] = []

    found = run.measure(PLAN, kafka.bootstrap_servers, said.append)

    by_variant = {each.variant: each for each in found}
    assert set(by_variant) == {*PLAN.variants, "produce", "send", "hold"}
    assert all(each.acked == each.case.messages for each in found if each.variant in OURS)
    assert all(each.markers > 0 for each in found if each.variant in OURS)
    assert all(each.figures.seconds > 0 and each.figures.peak_mb > 0 for each in found)
    assert len(said) == len(found) + len(PLAN.cases)
    assert len(summary.rows(found)) == len(found)


def test_the_delay_of_every_message_is_measured_for_each_variant(kafka: embedded.Runtime) -> None:
    plan = latency.LatencyPlan({0: 20, 1_000: 20}, rounds=1)
    said: list[str] = []

    found = latency.measure(kafka.bootstrap_servers, plan, said.append)

    assert {row.variant for row in found} == set(latency.TITLES)
    assert all(row.messages == 20 and 0 < row.p50_ms <= row.p99_ms for row in found)
    assert len(said) == len(found)
