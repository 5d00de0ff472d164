"""How long the query may rest between two batches: a batch costs the same whatever it finds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from marq.kafka.tracker.act.report import Report

REST_S = 0.3
"""At most, where nothing lapses soon. What is new in the log waits so long: rejected messages, and
the counts of queues."""
QUIET_S = 10.0
"""At most, where the hold logs have taken nothing but ticks since: they are read and trimmed now
and then, so that waking costs little, and Python workers live on, which end after a minute."""
_LONGEST_S = 1.0
_BEHIND_MS = 2_000
"""With a clock so far behind there is more to read."""


class Rest(NamedTuple):
    """Before the next batch."""

    seconds: float = 0.0
    lapse_ms: int = 0
    """The time of the lapse that the rest ends for: every hold log gets a tick then; 0: none."""


def rest(reports: Iterable[Report], now_ms: int | None, batch_s: float = 0.0) -> Rest:
    """Before what may be new is looked at; `now_ms` by the log's clock, `batch_s` is how long a
    batch takes."""
    reports = list(reports)
    if now_ms is None or not reports or any(_is_busy(each, now_ms) for each in reports):
        return Rest()
    return until_lapse(reports, now_ms, batch_s, REST_S)


def until_lapse(reports: Iterable[Report], now_ms: int, batch_s: float, longest_s: float) -> Rest:
    """Until something lapses, at most `longest_s`.

    What is begun or parked meanwhile lapses later than that, and what lapses sooner is known. No
    batch is begun that would still run by then, for what lapses amid a batch waits for the next
    one.
    """
    lapses = [each.next_lapse_ms for each in reports if each.next_lapse_ms]
    if not lapses:
        return Rest(longest_s)
    left_s = max(0.0, (min(lapses) - now_ms) / 1_000)
    if left_s <= max(longest_s, min(max(batch_s, REST_S), _LONGEST_S)):
        return Rest(left_s, min(lapses))
    return Rest(min(longest_s, max(0.0, left_s - batch_s)))


def _is_busy(report: Report, now_ms: int) -> bool:
    """Whether there is more where this came from: what was written is to be read, or it lags."""
    wrote = bool(report.fates or report.put_off or report.overtaken)
    return wrote or report.clock_ms < now_ms - _BEHIND_MS
