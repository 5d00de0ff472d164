"""The benchmark's results as tables and as one line of JSON."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable

import msgspec
from rich.console import Group
from rich.table import Table

from marq.bench.plan import CONSUMING, SENDING, TITLES, Measured, Plan
from marq.bench.summary import Goal, Row


def tables(rows: list[Row], goals: list[Goal], plan: Plan) -> Group:
    """Everything, for people."""
    return Group(
        consuming([row for row in rows if row.variant in CONSUMING], plan),
        sending([row for row in rows if row.variant in SENDING], plan),
        goal_table(goals),
    )


def consuming(rows: list[Row], plan: Plan) -> Table:
    """Variants that read, case by case."""
    title = f"receiving {plan.messages:,} messages, median of {plan.rounds} interleaved"
    table = _table(title, "case", "what", "msg/s", "from - to", "CPU s/M")
    for heading in ("of bare", "of share", "markers/msg", "peak MB"):
        table.add_column(heading, justify="right", no_wrap=True)
    before = None
    for row in rows:
        if before and before != row.case:
            table.add_section()
        first = "" if before == row.case else str(row.case)
        markers = "" if row.markers_per_message is None else f"{row.markers_per_message:.4f}"
        of = (_ratio(row.of_bare), _ratio(row.of_share))
        table.add_row(first, *_cells(row), *of, markers, f"{row.peak_mb:.0f}")
        before = row.case
    return table


def sending(rows: list[Row], plan: Plan) -> Table:
    """Variants that write."""
    title = f"sending {plan.messages:,} messages, each durable"
    table = _table(title, "size", "what", "msg/s", "from - to", "CPU s/M")
    table.add_column("of bare", justify="right")
    table.add_column("peak MB", justify="right")
    for row in rows:
        size = str(row.case).split(",")[0]
        table.add_row(size, *_cells(row), _ratio(row.of_produce), f"{row.peak_mb:.0f}")
    return table


def goal_table(goals: Iterable[Goal]) -> Table:
    """Found beside hoped for."""
    table = _table("goals", "what", "case", "found", "goal")
    table.add_column("")
    for goal in goals:
        bound = f"{'>=' if goal.at_least else '<='} {goal.bound:g}"
        met = "[green]met" if goal.met else "[red]missed"
        table.add_row(goal.name, goal.case, f"{goal.found:.3g}", bound, met)
    return table


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number < 2 else "right", no_wrap=True)
    return table


def _cells(row: Row) -> tuple[str, str, str, str]:
    spread = f"{row.slowest / 1e3:,.0f} - {row.fastest / 1e3:,.0f} k"
    return TITLES[row.variant], f"{row.rate:,.0f}", spread, f"{row.cpu_per_million:.2f}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def json_line(rows: list[Row], goals: list[Goal], plan: Plan, measured: list[Measured]) -> str:
    """Everything, for programs."""
    where = {"cores": os.cpu_count(), "python": platform.python_version(), "on": platform.machine()}
    met = [{**msgspec.to_builtins(goal), "met": goal.met} for goal in goals]
    found = {"plan": plan, "machine": where, "rows": rows, "goals": met, "measured": measured}
    return msgspec.json.encode({"bench": found}).decode()
