"""Counts of a queue: what the fold knows of each source partition, and what that comes to."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from marq.core import claimed
from marq.core.marker import Action
from marq.core.runs import Runs
from marq.core.state import State


class SourceCount(Struct, frozen=True, array_like=True):
    """What a fold knows of one source partition."""

    topic_id: bytes
    partition: int
    queue: str
    subscription: str
    ever: list[tuple[int, int]]
    """The runs ever claimed, as (start, end)."""
    open: int = 0
    begun: int = 0
    """Of the open ones, those in someone's hands."""
    held: int = 0
    """Of the open ones, those that wait for their retry."""
    oldest: int = -1
    """The lowest offset that is open; -1: none is."""

    @property
    def polled_to(self) -> int:
        """From here on nobody has claimed anything."""
        return self.ever[-1][1] if self.ever else 0

    def settled_to(self, log_start: int) -> int:
        """All of the log below has ended; the log's start if not even that is known.

        By what the log says was claimed and has ended, and not by committed offsets: it needs no
        look at the group, and a worker whose offset lies below the log's start goes on there.
        """
        first = next(((low, high) for low, high in self.ever if low <= log_start < high), None)
        if first is None:
            return log_start
        return first[1] if self.oldest < 0 else max(log_start, min(first[1], self.oldest))

    def in_hand(self) -> Runs:
        """What was ever claimed."""
        return Runs(self.ever)


def source_counts(state: State) -> list[SourceCount]:
    """The counts of every source the state has heard of."""
    tallies: dict[tuple[bytes, int, str, str], list[int]] = {}
    for claim in state.claims.values():
        tally = tallies.setdefault(claim.source[:4], [0, 0, 0, -1])
        for part in claim.parts:
            number = part.indexes.bit_count()
            tally[0] += number
            tally[1] += number if part.attempt and part.action is Action.EXPIRE else 0
            tally[2] += number if part.action is Action.REDELIVER else 0
        lowest, _ = next(claimed.offsets(claim.runs, claim.open))
        tally[3] = lowest if tally[3] < 0 else min(lowest, tally[3])
    none = (0, 0, 0, -1)
    return [
        SourceCount(*stream, list(ever.runs), *tallies.get(stream, none))
        for stream, ever in state.claimed.items()
    ]


def waiting(count: SourceCount | None, log_start: int, log_end: int) -> tuple[int, int]:
    """From where to where messages lie that nobody has claimed."""
    return max(log_start, count.polled_to if count else 0), log_end


def unclaimed(count: SourceCount | None, records: Iterable[int]) -> list[int]:
    """Those of these offsets that nobody has claimed."""
    ever = count.in_hand() if count else Runs()
    return [offset for offset in records if offset not in ever]
