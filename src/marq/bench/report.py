"""The benchmark's results as tables and as one line of JSON."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from itertools import groupby

import msgspec
from rich.console import Group
from rich.table import Table

from marq.bench.latency import LatencyRow as Delay
from marq.bench.plan import CONSUMING, SENDING, TITLES, Measured, Plan
from marq.bench.summary import Goal, Row

WIDTH = 134
"""Columns the widest table needs."""


def tables(rows: list[Row], goals: list[Goal], plan: Plan) -> Group:
    """Everything, for people."""
    return Group(
        consuming([row for row in rows if row.variant in CONSUMING], plan),
        sending([row for row in rows if row.variant in SENDING], plan),
        goal_table(goals),
    )


def consuming(rows: list[Row], plan: Plan) -> Table:
    """Variants that read, case by case."""
    headings = ("msg/s", "from - to", "CPU s/M", "of bare", "of share", "markers/msg", "peak MB")
    table = _table(f"receiving, {_rounds(plan)}", 1, "", *headings)
    for case, variants in groupby(rows, lambda row: row.case):
        table.add_section()
        table.add_row(f"[bold]{case}")
        for row in variants:
            markers = "" if row.markers_per_message is None else f"{row.markers_per_message:.4f}"
            of = _with_spread(row), _ratio(row.of_share)
            table.add_row(*_cells(row), *of, markers, f"{row.peak_mb:.0f}")
    return table


def sending(rows: list[Row], plan: Plan) -> Table:
    """Variants that write."""
    headings = ("msg/s", "from - to", "CPU s/M", "of bare", "peak MB")
    title = f"sending, each message durable, {_rounds(plan)}"
    table = _table(title, 2, "", "size", *headings)
    for row in rows:
        what, *figures = _cells(row)
        peak = f"{row.peak_mb:.0f}"
        table.add_row(what, row.case.bytes_each, *figures, _ratio(row.of_produce), peak)
    return table


def latency(rows: list[Delay]) -> Table:
    """How long one message takes."""
    headings = ("messages", "p50 ms", "p99 ms", "p50 of bare", "p99 of bare")
    table = _table("how long one message takes", 2, "", "at", *headings)
    for row in rows:
        of_bare = _ratio(row.times_p50), _ratio(row.times_p99)
        figures = f"{row.messages:,}", f"{row.p50_ms:.2f}", f"{row.p99_ms:.2f}"
        table.add_row(row.title, row.at, *figures, *of_bare)
    return table


def _rounds(plan: Plan) -> str:
    return "one round" if plan.rounds == 1 else f"median of {plan.rounds} rounds"


def goal_table(goals: Iterable[Goal]) -> Table:
    """Found beside hoped for."""
    table = _table("goals", 2, "", "case", "found", "goal", "")
    for goal in goals:
        bound = f"{'>=' if goal.at_least else '<='} {goal.bound:g}"
        met = "[green]met" if goal.met else "[red]missed"
        table.add_row(goal.name, goal.case, f"{goal.found:.3g}", bound, met)
    return table


def _table(title: str, texts: int, *headings: str) -> Table:
    """A table whose first columns are texts, the others numbers."""
    table = Table(title=title, title_justify="left")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number < texts else "right", no_wrap=True)
    return table


def _cells(row: Row) -> tuple[str, str, str, str]:
    spread = f"{row.slowest / 1e3:,.0f} - {row.fastest / 1e3:,.0f} k"
    return TITLES[row.variant], f"{row.rate:,.0f}", spread, f"{row.cpu_per_million:.2f}"


def _with_spread(row: Row) -> str:
    if row.of_bare is None:
        return ""
    spread = f"{_ratio(row.of_bare_least)} - {_ratio(row.of_bare_most)}"
    return f"{row.of_bare:.2f} ({spread})"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def json_line(
    rows: list[Row],
    goals: list[Goal],
    plan: Plan,
    measured: list[Measured],
    delays: Iterable[Delay] = (),
) -> str:
    """Everything, for programs."""
    where = {"cores": os.cpu_count(), "python": platform.python_version(), "on": platform.machine()}
    met = [{**msgspec.to_builtins(goal), "met": goal.met} for goal in goals]
    found = {"plan": plan, "machine": where, "rows": rows, "goals": met, "measured": measured}
    return msgspec.json.encode({"bench": {**found, "latency": list(delays)}}).decode()
