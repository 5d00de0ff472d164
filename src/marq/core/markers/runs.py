"""Sets of offsets as runs: sorted, disjoint, never touching; normally one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class Runs:
    """A set of offsets that grows at its end almost always."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, runs: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in runs:
            self.add(start, end)

    def add(self, start: int, end: int) -> None:
        """Add the offsets start..end-1."""
        if start >= end:
            return
        first = bisect_left(self._ends, start)  # the first run that touches or follows
        last = bisect_right(self._starts, end)  # past the last run that touches or precedes
        if first < last:
            start = min(start, self._starts[first])
            end = max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]

    def meets(self, start: int, end: int) -> bool:
        """Whether any of start..end-1 is in."""
        at = bisect_right(self._ends, start)
        return at < len(self._starts) and max(start, self._starts[at]) < end

    def has(self, start: int, end: int) -> bool:
        """Whether all of start..end-1 is in."""
        at = bisect_right(self._ends, start)
        return start >= end or (
            at < len(self._starts) and self._starts[at] <= start and end <= self._ends[at]
        )

    def within(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of the set inside start..end-1, as (start, end)."""
        at = bisect_right(self._ends, start)
        while at < len(self._starts) and max(start, self._starts[at]) < end:
            yield max(start, self._starts[at]), min(end, self._ends[at])
            at += 1

    def without(self, taken: Runs) -> Runs:
        """What is in this set and not in the other."""
        left = Runs()
        for start, end in self:
            at = start
            for out, back in taken.within(start, end):
                left.add(at, out)
                at = back
            left.add(at, end)
        return left

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._ends, strict=True)

    def __contains__(self, offset: int) -> bool:
        return self.meets(offset, offset + 1)

    def __len__(self) -> int:
        return len(self._starts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Runs) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Runs({list(self)})"
