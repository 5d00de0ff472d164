"""Sets of small indexes as one integer each: bit i set = index i is in.

A claim's messages are known by their index in it. Whole-set operations on an int of 500 bits cost
some 50 ns, so folding a batch costs what a message costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def span(start: int, count: int) -> int:
    """The indexes start, start+1, ... (`count` of them)."""
    return ((1 << count) - 1) << start


def of(indexes: Iterable[int]) -> int:
    """The set of these indexes."""
    mask = 0
    for index in indexes:
        mask |= 1 << index
    return mask


def runs(mask: int) -> Iterator[tuple[int, int]]:
    """The set as (start, count) runs, ascending."""
    start = 0
    while mask:
        gap = (mask & -mask).bit_length() - 1
        mask >>= gap
        # mask + 1 carries through the run's ones: its lowest set bit tells the run's length.
        count = (~mask & (mask + 1)).bit_length() - 1
        yield start + gap, count
        start += gap + count
        mask >>= count


def indexes(mask: int) -> Iterator[int]:
    """The indexes in the set, ascending."""
    for start, count in runs(mask):
        yield from range(start, start + count)
