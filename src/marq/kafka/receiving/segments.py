"""A polled batch, cut by partition: mostly a few long runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Segment = tuple[int, tuple[tuple[int, int], ...], list[Any]]
"""Partition, runs of offsets (first, count), and the messages."""


def segments(batch: list[Any]) -> Iterator[Segment]:
    """The batch by partition; messages of one partition keep their order."""
    found: dict[int, tuple[list[tuple[int, int]], list[Any]]] = {}
    at = 0
    while at < len(batch):
        partition, first = batch[at].partition(), batch[at].offset()
        end = _run_end(batch, at, partition, first)
        runs, messages = found.setdefault(partition, ([], []))
        if runs and sum(runs[-1]) == first:
            runs[-1] = (runs[-1][0], runs[-1][1] + end - at)
        else:
            runs.append((first, end - at))
        messages += batch[at:end]
        at = end
    for partition, (runs, messages) in found.items():
        yield partition, tuple(runs), messages


def _run_end(batch: list[Any], start: int, partition: int, first: int) -> int:
    """Where the run that starts here ends, found by bisection: within a run, offset minus index
    is constant, and once it is not it never is again."""
    low, high = start + 1, len(batch)
    if high - start > 1 and _in_run(batch[high - 1], high - 1 - start, partition, first):
        return high
    while low < high:
        middle = (low + high) // 2
        if _in_run(batch[middle], middle - start, partition, first):
            low = middle + 1
        else:
            high = middle
    return low


def _in_run(message: Any, distance: int, partition: int, first: int) -> bool:
    return bool(message.partition() == partition and message.offset() == first + distance)
