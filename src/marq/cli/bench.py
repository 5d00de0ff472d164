"""`marq bench`: marq beside the bare client and Kafka's share groups, on a broker of its own."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from marq.bench import latency, plot, report, run, summary
from marq.bench.plan import QUICK, Plan
from marq.cli.errors import clear_errors


def bench(
    messages: Annotated[
        int, typer.Option(min=1_000, help="messages of a measurement")
    ] = Plan().messages,
    rounds: Annotated[int, typer.Option(min=1, help="times each is measured")] = Plan().rounds,
    quick: Annotated[bool, typer.Option("--quick", help="100,000 messages, one round")] = False,
    plot_to: Annotated[
        Path | None, typer.Option("--plot", help="write a PNG here (needs matplotlib)")
    ] = None,
    only_latency: Annotated[
        bool, typer.Option("--latency", help="only how long one message takes")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print one line of JSON only")] = False,
) -> None:
    """Measure marq on this machine: takes minutes, and everything is gone afterwards."""
    plan = QUICK if quick else Plan(messages=messages, rounds=rounds)
    logging.getLogger("marq").setLevel(logging.CRITICAL)
    said = Console(stderr=True, highlight=False, soft_wrap=True)
    told = partial(said.print, markup=False)
    lags = latency.QUICK if quick else latency.LatencyPlan(rounds=rounds)
    with clear_errors(), run.broker_of_its_own(told) as servers:
        delays = latency.measure(servers, lags, told)
        measured = [] if only_latency else run.measure(plan, servers, told)
    rows = summary.rows(measured)
    goals = [*latency.goals(delays), *summary.goals(rows, plan.held)]
    if not as_json:
        shown = Console(highlight=False, width=max(report.WIDTH, Console().width))
        shown.print(report.latency(delays))
        shown.print(report.goal_table(goals) if only_latency else report.tables(rows, goals, plan))
    typer.echo(report.json_line(rows, goals, plan, measured, delays))
    if plot_to is not None:
        drawn = plot.draw(rows, plot_to)
        said.print(f"plot: {plot_to}" if drawn else "no plot: matplotlib is not installed")
