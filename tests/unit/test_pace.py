"""How long the tracker rests between two batches."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from marq.kafka.act.report import Report
from marq.spark.pace import REST_S, rest_s

NOW = 1_700_000_000_000
TICK_S = 0.1


def report(**about: Any) -> Report:
    return Report("marq.markers", 0, 7, about.pop("clock_ms", NOW - 100), 0, 0, [], {}, **about)


def test_it_rests_when_nothing_is_open() -> None:
    assert rest_s([report()], NOW, TICK_S) == REST_S


def test_it_rests_no_longer_than_until_the_log_is_told_that_something_lapsed() -> None:
    soonest = [report(next_lapse_ms=NOW + 50), report(next_lapse_ms=NOW + 90_000), report()]

    assert rest_s(soonest, NOW, TICK_S) == pytest.approx(0.15)


def test_what_lapses_later_does_not_keep_it_from_looking() -> None:
    assert rest_s([report(next_lapse_ms=NOW + 90_000)], NOW, TICK_S) == REST_S


@pytest.mark.parametrize(
    ("lapses_in_ms", "rest"),
    [
        (400, 0.5),  # a batch begun now would still run: it waits for it
        (550, 0.65),
        (700, 0.1),  # after a short rest there is time for one more batch before
        (5_000, REST_S),
    ],
)
def test_no_batch_runs_while_something_lapses(lapses_in_ms: int, rest: float) -> None:
    found = rest_s([report(next_lapse_ms=NOW + lapses_in_ms)], NOW, TICK_S, batch_s=0.7)

    assert found == pytest.approx(rest)


def test_batches_that_take_long_are_not_waited_out() -> None:
    assert rest_s([report(next_lapse_ms=NOW + 4_000)], NOW, TICK_S, batch_s=8.0) == 0


def test_what_has_lapsed_is_not_waited_for() -> None:
    assert rest_s([report(next_lapse_ms=NOW - 500)], NOW, TICK_S) == 0


@pytest.mark.parametrize(
    "busy",
    [
        report(fates={"copied": 1}),
        report(put_off=1),
        report(overtaken=1),
        report(clock_ms=NOW - 10_000),
    ],
)
def test_it_does_not_rest_while_there_is_more_to_do(busy: Report) -> None:
    assert rest_s([report(), busy], NOW, TICK_S) == 0


def test_it_does_not_rest_before_the_log_s_clock_is_known() -> None:
    assert rest_s([report()], None, TICK_S) == 0
