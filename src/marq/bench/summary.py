"""From measurements to medians, ratios and goals; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import median

import msgspec

from marq.bench.plan import CONSUMING, OURS, SENDING, Case, Measured

_LARGE = 1_024


Pick = Callable[[list[float]], float]


class Row(msgspec.Struct, frozen=True):
    """One variant in one case, over all rounds."""

    variant: str
    case: Case
    rate: float
    slowest: float
    fastest: float
    cpu_per_million: float
    peak_mb: float
    markers_per_message: float | None = None
    of_bare: float | None = None
    of_bare_least: float | None = None
    of_bare_most: float | None = None
    of_pull: float | None = None
    of_share: float | None = None
    of_share_stock: float | None = None
    of_produce: float | None = None


class Goal(msgspec.Struct, frozen=True):
    """What was hoped for and what came of it."""

    name: str
    case: str
    found: float
    bound: float
    at_least: bool = True

    @property
    def met(self) -> bool:
        return self.found >= self.bound if self.at_least else self.found <= self.bound


def rows(measured: Iterable[Measured]) -> list[Row]:
    """A row for each variant of each case, in the order they were first measured."""
    groups: dict[tuple[Case, str], list[Measured]] = {}
    for each in measured:
        groups.setdefault((each.case, each.variant), []).append(each)
    return [_row(case, variant, groups) for case, variant in groups]


def _row(case: Case, variant: str, groups: dict[tuple[Case, str], list[Measured]]) -> Row:
    runs = groups[case, variant]
    rates = [run.figures.rate for run in runs]

    def of(other: str, among: Iterable[str], pick: Pick = median) -> float | None:
        comparable = variant in among and variant != other
        return ratio(runs, groups.get((case, other), []), pick) if comparable else None

    return Row(
        variant,
        case,
        rate=median(rates),
        slowest=min(rates),
        fastest=max(rates),
        cpu_per_million=median(run.figures.cpu_per_million for run in runs),
        peak_mb=max(run.figures.peak_mb for run in runs),
        markers_per_message=_markers(runs) if variant in OURS else None,
        of_bare=of("bare", CONSUMING),
        of_bare_least=of("bare", CONSUMING, min),
        of_bare_most=of("bare", CONSUMING, max),
        of_pull=of("pull", ("pair",)),
        of_share=of("share", CONSUMING),
        of_share_stock=of("share-stock", CONSUMING),
        of_produce=of("produce", SENDING),
    )


def _markers(runs: list[Measured]) -> float:
    return median(run.markers / (run.acked or 1) for run in runs)


def ratio(ours: list[Measured], theirs: list[Measured], pick: Pick = median) -> float | None:
    """The median over rounds, or what is to be picked, of one rate to another of the same round:
    what slows the machine down for a while slows both."""
    rates = {run.round: run.figures.rate for run in theirs if run.figures.rate}
    found = [run.figures.rate / rates[run.round] for run in ours if run.round in rates]
    return pick(found) if found else None


def goals(table: Iterable[Row], held: int) -> list[Goal]:
    """What the benchmark is there to show."""
    return [goal for row in table for goal in _goals(row, held)]


def _goals(row: Row, held: int) -> list[Goal]:
    case = str(row.case) if row.variant in CONSUMING else row.case.bytes_each
    match row.variant:
        case "pull":
            wanted: list[tuple[str, float | None, float, bool]] = [
                ("receive + ack, of bare consume", row.of_bare, _of_bare(row.case), True),
                ("receive + ack, times ShareConsumer tuned", row.of_share, 1.1, True),
                ("receive + ack, times it untuned", row.of_share_stock, 1.3, True),
                ("marker records a message", row.markers_per_message, 0.001, False),
            ]
        case "pair":
            wanted = [("two processes, times one", row.of_pull, 1.6, True)]
        case "batch":
            wanted = [("handler with batch=True, of bare consume", row.of_bare, 0.5, True)]
        case "handler":
            wanted = [("handler once a message, of bare consume", row.of_bare, 0.25, True)]
        case "send":
            wanted = [("send, of bare produce", row.of_produce, 0.8, True)]
        case "hold":
            wanted = [(f"MB with {held:,} messages open", row.peak_mb, 300.0, False)]
        case _:
            wanted = []
    return [Goal(n, case, found, b, least) for n, found, b, least in wanted if found is not None]


def _of_bare(case: Case) -> float:
    if case.is_short:
        return 0.5
    return 0.7 if case.size >= _LARGE else 0.6
