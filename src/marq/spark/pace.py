"""How long the query may rest between two batches: a batch costs the same whatever it finds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from marq.kafka.tracker.act.report import Report

REST_S = 0.3
"""At most, where nothing lapses soon. What is new in the log waits so long: rejected messages, and
the counts of queues."""
_LONGEST_S = 1.0
_BEHIND_MS = 2_000
"""With a clock so far behind there is more to read."""


class Rest(NamedTuple):
    """Before the next batch."""

    seconds: float = 0.0
    lapse_ms: int = 0
    """What it is for: that is over then, and the log must be told; 0: nothing."""


def rest(reports: Iterable[Report], now_ms: int | None, batch_s: float = 0.0) -> Rest:
    """Until something lapses; `now_ms` by the log's clock.

    What is begun or parked meanwhile lapses later than that, and what lapses sooner is known. No
    batch is begun that would still run by then, for what lapses amid a batch waits for the next
    one; `batch_s` is how long one takes.
    """
    reports = list(reports)
    if now_ms is None or not reports or any(_is_busy(each, now_ms) for each in reports):
        return Rest()
    lapses = [each.next_lapse_ms for each in reports if each.next_lapse_ms]
    if not lapses:
        return Rest(REST_S)
    left_s = max(0.0, (min(lapses) - now_ms) / 1_000)
    if left_s <= min(max(batch_s, REST_S), _LONGEST_S):
        return Rest(left_s, min(lapses))
    return Rest(min(REST_S, max(0.0, left_s - batch_s)))


def _is_busy(report: Report, now_ms: int) -> bool:
    """Whether there is more where this came from: what was written is to be read, or it lags."""
    wrote = bool(report.fates or report.put_off or report.overtaken)
    return wrote or report.clock_ms < now_ms - _BEHIND_MS
