"""How long the tracker rests between two batches."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from marq.kafka.tracker.act.report import Report
from marq.spark.pace import REST_S, Rest, rest

NOW = 1_700_000_000_000


def report(**about: Any) -> Report:
    return Report("marq.markers", 0, 7, about.pop("clock_ms", NOW - 100), 0, 0, [], {}, **about)


def test_it_rests_when_nothing_is_open() -> None:
    assert rest([report()], NOW) == Rest(REST_S)


def test_it_rests_no_longer_than_until_something_lapses_and_says_what() -> None:
    soonest = [report(next_lapse_ms=NOW + 50), report(next_lapse_ms=NOW + 90_000), report()]

    assert rest(soonest, NOW) == Rest(0.05, NOW + 50)


def test_what_lapses_later_does_not_keep_it_from_looking() -> None:
    assert rest([report(next_lapse_ms=NOW + 90_000)], NOW) == Rest(REST_S)


@pytest.mark.parametrize(
    ("lapses_in_ms", "rests_s", "waits"),
    [
        (400, 0.4, True),  # a batch begun now would still run: it waits for it
        (650, 0.65, True),
        (800, 0.1, False),  # after a short rest there is time for one more batch before
        (5_000, REST_S, False),
    ],
)
def test_no_batch_runs_while_something_lapses(
    lapses_in_ms: int, rests_s: float, waits: bool
) -> None:
    found = rest([report(next_lapse_ms=NOW + lapses_in_ms)], NOW, batch_s=0.7)

    assert found.seconds == pytest.approx(rests_s)
    assert found.lapse_ms == (NOW + lapses_in_ms if waits else 0)


def test_batches_that_take_long_are_not_waited_out() -> None:
    assert rest([report(next_lapse_ms=NOW + 4_000)], NOW, batch_s=8.0) == Rest()


def test_what_has_lapsed_is_not_waited_for_but_the_log_is_told() -> None:
    assert rest([report(next_lapse_ms=NOW - 500)], NOW) == Rest(0.0, NOW - 500)


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
    assert rest([report(), busy], NOW) == Rest()


def test_it_does_not_rest_before_the_log_s_clock_is_known() -> None:
    assert rest([report()], None) == Rest()
