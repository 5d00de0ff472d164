"""What the benchmark makes of its measurements, and how it shows it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner

from marq.bench import plot, report, summary
from marq.bench.meter import Meter, peak_mb
from marq.bench.plan import CONSUMING, OURS, Case, Figures, Measured, Measurement, Plan
from marq.bench.run import rotated
from marq.cli import app

LARGE, SMALL = Case(100), Case(1_024, "small")


def measured(
    variant: str, *rates: float, case: Case = LARGE, markers: int = 0, peak: float = 50.0
) -> list[Measured]:
    """Measurements of one second each."""
    acked = 1_000 if variant in OURS else None
    return [
        Measured(variant, case, number, Figures(int(rate), 1.0, 2.0, peak), markers, acked)
        for number, rate in enumerate(rates)
    ]


def row(rows: list[summary.Row], variant: str) -> summary.Row:
    (found,) = [each for each in rows if each.variant == variant]
    return found


def test_a_row_has_the_median_and_the_spread_of_all_rounds() -> None:
    (found,) = summary.rows(measured("bare", 100, 300, 200))

    assert (found.rate, found.slowest, found.fastest) == (200, 100, 300)
    assert found.cpu_per_million == pytest.approx(10_000)


def test_rates_are_compared_round_by_round() -> None:
    rows = summary.rows(measured("bare", 100, 1_000, 200) + measured("pull", 50, 500, 120))

    assert row(rows, "pull").of_bare == pytest.approx(0.5)
    assert row(rows, "bare").of_bare is None


def test_rounds_that_only_one_of_the_two_has_are_not_compared() -> None:
    ours, theirs = measured("pull", 50, 80), measured("bare", 100)

    assert summary.ratio(ours, theirs) == 0.5
    assert summary.ratio(ours, []) is None


def test_nothing_is_compared_with_a_measurement_that_told_nothing() -> None:
    rows = summary.rows(measured("bare", 0) + measured("pull", 50))

    assert row(rows, "bare").cpu_per_million == 0
    assert row(rows, "pull").of_bare is None


def test_cases_are_not_mixed() -> None:
    rows = summary.rows(
        measured("bare", 100)
        + measured("bare", 1_000, case=SMALL)
        + measured("pull", 50, case=SMALL)
    )

    assert [(each.case, each.variant) for each in rows] == [
        (LARGE, "bare"), (SMALL, "bare"), (SMALL, "pull"),
    ]  # fmt: skip
    assert row(rows, "pull").of_bare == 0.05


def test_sending_is_compared_with_sending_only() -> None:
    rows = summary.rows(measured("bare", 100) + measured("produce", 50) + measured("send", 30))

    sent = row(rows, "send")
    assert (sent.of_produce, sent.of_bare, sent.markers_per_message) == (0.6, None, None)
    assert row(rows, "bare").of_produce is None


def test_markers_are_counted_by_the_messages_they_end() -> None:
    (found,) = summary.rows(measured("pull", 100, 100, markers=5))

    assert found.markers_per_message == 0.005


def test_a_short_run_is_asked_for_less_and_large_messages_for_more() -> None:
    short, large = Case(100, messages=100_000, is_short=True), Case(1_024)
    rows = [
        found
        for case in (LARGE, short, large)
        for found in summary.rows(
            measured("bare", 100, case=case) + measured("pull", 60, case=case)
        )
    ]

    goals = [goal for goal in summary.goals(rows, 1) if "of bare" in goal.name]

    assert [(goal.bound, goal.met) for goal in goals] == [(0.6, True), (0.5, True), (0.7, False)]


def test_two_processes_are_compared_with_one() -> None:
    rows = summary.rows(measured("pull", 100, 200) + measured("pair", 170, 350))

    assert row(rows, "pair").of_pull == pytest.approx(1.725)
    assert row(rows, "pull").of_pull is None


def test_a_ratio_has_its_spread() -> None:
    found = row(summary.rows(measured("bare", 100, 100) + measured("pull", 40, 60)), "pull")

    assert (found.of_bare_least, found.of_bare, found.of_bare_most) == (0.4, 0.5, 0.6)


def test_each_case_is_measured_and_the_first_with_everything() -> None:
    plan = Plan(messages=1_000_000)

    assert [str(case) for case in plan.cases] == [
        "1,000,000 of 100 B, large batches",
        "1,000,000 of 100 B, small batches",
        "292,968 of 1 KiB, large batches",
        "100,000 of 100 B, large batches",
    ]
    assert plan.variants_of(plan.cases[0]) == tuple(CONSUMING)
    assert "handler" not in plan.variants_of(plan.cases[-1])


def test_a_goal_may_be_a_most() -> None:
    within, beyond = (
        summary.goals(summary.rows(measured("hold", 1, peak=peak)), held=100_000)
        for peak in (299, 301)
    )

    assert [goal.met for goal in within + beyond] == [True, False]
    assert within[0].name == "MB with 100,000 messages open"


def test_what_was_not_measured_has_no_goal() -> None:
    found = summary.goals(summary.rows(measured("pull", 100, markers=1)), 1)

    assert [goal.name for goal in found] == ["marker records a message"]


def test_each_round_begins_with_another_variant() -> None:
    orders = [rotated(("a", "b", "c"), number) for number in range(4)]

    assert [order[0] for order in orders] == ["a", "b", "c", "a"]
    assert all(sorted(order) == ["a", "b", "c"] for order in orders)


def everything() -> list[Measured]:
    read = [each for variant in CONSUMING for each in measured(variant, 1e6, 2e6, markers=1)]
    return read + measured("produce", 2e5) + measured("send", 1e5) + measured("hold", 1e5)


def test_tables_show_every_figure_whole() -> None:
    plan = Plan(rounds=2)
    rows = summary.rows(everything())
    console = Console(width=report.WIDTH, color_system=None)

    with console.capture() as shown:
        console.print(report.tables(rows, summary.goals(rows, plan.held), plan))

    assert "…" not in shown.get()
    assert "1,500,000 │ 1,000 - 2,000 k" in shown.get()
    assert all(title in shown.get() for title in CONSUMING.values())


def test_the_json_line_is_one_line_from_which_all_can_be_made_again() -> None:
    plan, found = Plan(rounds=2), everything()
    rows = summary.rows(found)

    line = report.json_line(rows, summary.goals(rows, plan.held), plan, found)

    told = json.loads(line)["bench"]
    assert "\n" not in line
    assert msgspec.convert(told["measured"], list[Measured]) == found
    assert all("met" in goal for goal in told["goals"])


def test_a_plot_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")

    assert plot.draw(summary.rows(everything()), tmp_path / "out" / "bench.png")

    assert (tmp_path / "out" / "bench.png").read_bytes().startswith(b"\x89PNG")


def test_a_meter_counts_from_the_first_message_and_not_what_came_with_it() -> None:
    meter = Meter(10)

    meter.first(4)
    meter.first(6)  # no longer the first
    meter.last()

    assert meter.figures is not None
    assert meter.figures.messages == 6
    assert 0 < meter.figures.peak_mb <= peak_mb()


def test_a_job_survives_its_way_to_another_process() -> None:
    job = Measurement("pull", "host:1", "orders", 5, 100)

    assert msgspec.json.decode(msgspec.json.encode(job), type=Measurement) == job


@pytest.mark.parametrize("wrong", [["--messages", "0"], ["--rounds", "0"], ["--messages", "x"]])
def test_sizes_that_make_no_sense_are_refused(wrong: list[str]) -> None:
    assert CliRunner().invoke(app, ["bench", *wrong]).exit_code == 2
