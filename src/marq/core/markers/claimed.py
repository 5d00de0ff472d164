"""Between the offsets of a claim and the indexes that name its messages."""

from __future__ import annotations

from collections.abc import Iterator

from marq.core.markers import bits
from marq.core.markers.marker import Restated

ClaimedRuns = tuple[tuple[int, int], ...]
"""A claim's messages as (first offset, count), ascending."""


def size(runs: ClaimedRuns) -> int:
    """How many messages the claim holds."""
    return sum(count for _, count in runs)


def end(runs: ClaimedRuns) -> int:
    """The offset after the claim's last."""
    first, count = runs[-1]
    return first + count


def is_sound(claim: Restated) -> bool:
    """Whether each part of the statement names messages of the claim, and no other part the same.
    No tracker writes another one, and nobody could say where its messages lie."""
    left = bits.span(0, size(claim.runs))
    for part in claim.parts:
        if not part.indexes or part.indexes & ~left:
            return False
        left &= ~part.indexes
    return bool(claim.parts)


def indexes(runs: ClaimedRuns, start: int, stop: int) -> int:
    """The indexes of the claim's messages with offsets start..stop-1."""
    mask = base = 0
    for first, count in runs:
        low, high = max(first, start), min(first + count, stop)
        if low < high:
            mask |= bits.span(base + low - first, high - low)
        base += count
    return mask


def offsets(runs: ClaimedRuns, mask: int) -> Iterator[tuple[int, int]]:
    """The offsets of these indexes, as (start, stop) runs, ascending."""
    base = 0
    for first, count in runs:
        for index, length in bits.runs(mask >> base & bits.span(0, count)):
            yield first + index, first + index + length
        base += count


def numbered(runs: ClaimedRuns, mask: int) -> Iterator[tuple[int, int]]:
    """(index, offset) of these indexes, ascending."""
    base = 0
    for first, count in runs:
        for index in bits.indexes(mask >> base & bits.span(0, count)):
            yield base + index, first + index
        base += count
