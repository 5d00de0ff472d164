"""`make bench`: what `marq bench` measures, a plot, the rates of the pure core, ordered groups,
half messages, and the tracker.

MESSAGES=100000 ROUNDS=3 make bench
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from bench import core_rates, groups, half, tracker

from marq.bench.plan import Plan
from marq.cli.bench import bench

PLOT = Path(__file__).parent / "out" / "bench.png"


def main(
    messages: Annotated[int, typer.Option(min=1_000, envvar="MESSAGES")] = Plan().messages,
    rounds: Annotated[int, typer.Option(min=1, envvar="ROUNDS")] = Plan().rounds,
    quick: Annotated[bool, typer.Option("--quick")] = False,
) -> None:
    """Print the rates of the core, then the benchmark on a real broker."""
    core_rates.main()
    bench(messages, rounds, quick, plot_to=PLOT)
    groups.main(quick)
    half.main(quick)
    tracker.main(quick=quick)


if __name__ == "__main__":
    typer.run(main)
