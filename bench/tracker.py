"""The benchmark of the tracker: how late, how fast, how much it carries, what it costs.

    python -m bench.tracker [PART ...] [--quick]

Without a part, all of them. Sizes come from the environment, by the names of `Sizes` in capitals:
TRACKER_KILLS=3 make bench. Each figure is one line of JSON.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer
from bench import tracker_late, tracker_scale
from bench.tracker_rig import Rig, rig, say


class Sizes(NamedTuple):
    """How much of everything."""

    tracker_kills: int = 5
    tracker_load: int = 50_000
    """Messages a second beside what is measured."""
    tracker_delayed: int = 2_000
    tracker_mass: int = 20_000
    tracker_pending: int = 1_000_000
    """The most; a hundredth and a tenth of it are measured, too."""
    tracker_markers: int = 200_000_000
    """Messages whose markers are folded."""
    tracker_history: int = 1_000_000
    """Marker records, the most; a tenth of it is measured, too."""
    tracker_open_claims: int = 10_000
    tracker_idle_s: int = 60

    @classmethod
    def read(cls, quick: bool) -> Sizes:
        scale = 10 if quick else 1
        shown = {name: max(1, value // scale) for name, value in cls()._asdict().items()}
        return cls(**{name: int(os.environ.get(name.upper(), v)) for name, v in shown.items()})


def tell(part: str, figures: dict[str, Any]) -> None:
    print(json.dumps({"tracker": {"part": part, **figures}}), flush=True)


def idle(found: Rig, sizes: Sizes) -> None:
    found.start_tracker()
    time.sleep(10)  # what a start costs is not what is measured
    tell("idle", found.batches(sizes.tracker_idle_s))


def redelivery(found: Rig, sizes: Sizes) -> None:
    found.start_tracker()
    for load in sorted({0, sizes.tracker_load}):
        for kind in ("keep-alive", "pull"):
            say(f"redelivery, {kind}, load {load} a second")
            figures = tracker_late.redelivery(found, kind, load, sizes.tracker_kills)
            tell("redelivery", figures)


def delays(found: Rig, sizes: Sizes) -> None:
    found.start_tracker()
    for load in sorted({0, sizes.tracker_load}):
        tell("delays", tracker_late.delays(found, load, sizes.tracker_delayed))


def mass(found: Rig, sizes: Sizes) -> None:
    found.start_tracker()
    tell("mass", tracker_scale.mass(found, sizes.tracker_mass))


def pending(found: Rig, sizes: Sizes) -> None:
    """Due soon: few chunks, each with many."""
    _pending(found, sizes, 0.05)


def spread(found: Rig, sizes: Sizes) -> None:
    """Due over a month: many chunks, each with few."""
    _pending(found, sizes, 29.0)


def _pending(found: Rig, sizes: Sizes, days: float) -> None:
    found.start_tracker()
    numbers = [sizes.tracker_pending // share for share in (100, 10, 1)]
    for figures in tracker_scale.pending(found, numbers, days):
        tell("pending", figures)


def throughput(found: Rig, sizes: Sizes) -> None:
    tell("throughput", tracker_scale.throughput(found, sizes.tracker_markers))


def restart(found: Rig, sizes: Sizes) -> None:
    found.start_tracker()
    histories = [sizes.tracker_history // 10, sizes.tracker_history]
    for figures in tracker_scale.restart(found, histories, sizes.tracker_open_claims):
        tell("restart", figures)


PARTS: dict[str, Callable[[Rig, Sizes], None]] = {
    part.__name__: part
    for part in (idle, redelivery, delays, mass, pending, spread, throughput, restart)
}


def main(
    parts: Annotated[list[str] | None, typer.Argument(help=", ".join(PARTS))] = None,
    quick: Annotated[bool, typer.Option("--quick")] = False,
) -> None:
    """Print the tracker's figures; each part has a broker and a tracker of its own."""
    sizes = Sizes.read(quick)
    for name in parts or PARTS:
        if name not in PARTS:
            raise typer.BadParameter(f"no such part: {name}; there are {', '.join(PARTS)}")
        say(f"tracker: {name}")
        with rig() as found:
            PARTS[name](found, sizes)


if __name__ == "__main__":
    typer.run(main)
