"""The benchmark's results as a picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from marq.bench.plan import CONSUMING, TITLES, Case
from marq.bench.summary import Row

COLOURS = {
    "bare": "#9e9e9e",
    "share": "#f0a35e",
    "share-stock": "#f7cfa6",
    "pull": "#1f6fb4",
    "pair": "#0b3d66",
    "batch": "#5a9bd4",
    "handler": "#a9cdec",
}


def draw(rows: list[Row], path: Path) -> bool:
    """Write a PNG; False where matplotlib is not installed."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        return False
    plt.switch_backend("Agg")
    figure, (rates, costs) = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
    read = [row for row in rows if row.variant in CONSUMING]
    _bars(rates, read, lambda row: row.rate / 1e3, "1,000 messages a second, median and spread")
    _spread(rates, read)
    _bars(costs, read, lambda row: row.cpu_per_million, "CPU seconds per million (log scale)")
    costs.set_yscale("log")
    figure.legend(*rates.get_legend_handles_labels(), loc="outside lower center", ncols=6)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return True


def _bars(axes: Any, rows: list[Row], value: Callable[[Row], float], title: str) -> None:
    cases, variants = _order(rows)
    for variant in variants:
        mine = [row for row in rows if row.variant == variant]
        places = [_place(row, cases, variants) for row in mine]
        axes.bar(
            places,
            [value(row) for row in mine],
            width=0.8 / len(variants),
            label=TITLES[variant],
            color=COLOURS[variant],
        )
    axes.set_title(title, fontsize=10)
    axes.set_xticks(range(len(cases)), [str(case) for case in cases], fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _spread(axes: Any, rows: list[Row]) -> None:
    cases, variants = _order(rows)
    for row in rows:
        place = _place(row, cases, variants)
        axes.plot([place, place], [row.slowest / 1e3, row.fastest / 1e3], color="black", lw=1)


def _order(rows: list[Row]) -> tuple[list[Case], list[str]]:
    cases = list(dict.fromkeys(row.case for row in rows))
    return cases, [variant for variant in COLOURS if any(row.variant == variant for row in rows)]


def _place(row: Row, cases: list[Case], variants: list[str]) -> float:
    """Where its bar stands: cases side by side, variants in the same order within each."""
    within = variants.index(row.variant) - (len(variants) - 1) / 2
    return cases.index(row.case) + within * 0.8 / len(variants)
