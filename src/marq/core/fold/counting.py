"""Counts of a queue: what the fold knows of each source partition, and what that comes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from marq.core.fold.sources import Claimed, Stream
from marq.core.fold.state import State
from marq.core.markers import claimed
from marq.core.markers.marker import Action, Part
from marq.core.markers.runs import Runs

_NEAR = 100
"""It costs less to read so many messages than to be sent to another place."""


class SourceCount(Struct, frozen=True, array_like=True):
    """What a fold knows of one source partition."""

    topic_id: bytes
    partition: int
    queue: str
    subscription: str
    ever: list[tuple[int, int]]
    """The runs ever claimed, as (start, end)."""
    fetched: int = 0
    """By a worker, not yet handed out."""
    begun: int = 0
    """In someone's hands."""
    held: int = 0
    """Waiting for their retry."""
    oldest: int = -1
    """The lowest offset that is open; -1: none is."""

    @property
    def polled_to(self) -> int:
        """From here on nobody has claimed anything."""
        return self.ever[-1][1] if self.ever else 0

    def settled_to(self, log_start: int, empty: Runs | None = None) -> int:
        """All of the log below has ended; the log's start if not even that is known.

        By what the log says was claimed and has ended, and not by committed offsets: it needs no
        look at the group, and a worker whose offset lies below goes on where claims end. What is
        known to hold no message needs no claim.
        """
        unclaimed = self.unclaimed_from(log_start, empty)
        return unclaimed if self.oldest < 0 else max(log_start, min(unclaimed, self.oldest))

    def unclaimed_from(self, log_start: int, empty: Runs | None = None) -> int:
        """The first offset of the log that nobody ever claimed."""
        runs = self._passed(empty)
        return next((high for low, high in runs if low <= log_start < high), log_start)

    def hole(self, log_start: int, empty: Runs, most: int) -> tuple[int, int] | None:
        """The first offsets of the log that nobody claimed while later ones were, and where it is
        worth reading on to, for the next hole is near; None if all below has not ended."""
        first = self.unclaimed_from(log_start, empty)
        if first >= self.polled_to or 0 <= self.oldest < first:
            return None
        end = at = first
        for low, high in self._passed(empty).within(first, self.polled_to):
            if end > first and at - end > _NEAR:
                break
            end, at = low, high
        return first, min(end, first + most)

    def first_unclaimed(self, records: Runs) -> int | None:
        """The first of these records that nobody has claimed."""
        return next((low for low, _ in self.never_claimed(records)), None)

    def _passed(self, empty: Runs | None) -> Runs:
        return Runs([*self.ever, *(empty or ())])

    def never_claimed(self, records: Runs) -> Runs:
        """Those of these records that nobody has claimed."""
        return records.without(Runs(self.ever))


def source_counts(state: State, sources: Mapping[Stream, Claimed]) -> list[SourceCount]:
    """The counts of these sources of the state."""
    numbers: dict[Stream, Counter[str]] = {}
    oldest: dict[Stream, int] = {}
    for claim in state.claims.values():
        stream = claim.source[:4]
        counter = numbers.setdefault(stream, Counter())
        for part in claim.parts:
            counter[_doing(part)] += part.indexes.bit_count()
        lowest, _ = next(claimed.offsets(claim.runs, claim.open))
        oldest[stream] = min(lowest, oldest.get(stream, lowest))
    found = []
    for stream, ever in sources.items():
        number = numbers.get(stream, Counter())
        doing = (number["fetched"], number["begun"], number["held"])
        found.append(SourceCount(*stream, list(ever.runs), *doing, oldest.get(stream, -1)))
    return found


def _doing(part: Part) -> str:
    """What these messages are about; what is to be buried is still in the hands it was in."""
    if part.action is Action.REDELIVER:
        return "held"
    return "begun" if part.attempt else "fetched"
