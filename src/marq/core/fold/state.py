"""What the fold of one hold-log partition knows: O(open), never O(history)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec import Struct

from marq.core.fold.parked import ParkedEntries
from marq.core.markers import claimed
from marq.core.markers.marker import ClaimId, Part, Source
from marq.core.markers.runs import Runs

Stream = tuple[bytes, int, str, str]
"""A source whatever its epoch: topic id, partition, queue, subscription."""


class OpenClaim(Struct, gc=False):
    """A claim with messages still open."""

    id: ClaimId
    source: Source
    runs: claimed.ClaimedRuns
    parts: list[Part]
    stated_at: int
    """Offset of its last full statement: the log is needed from there."""
    stated_ms: int
    named_at: int
    """Offset of the last record that named it or changed it, or that a restatement of it knew of: a
    restatement made before is out of date."""
    marked: int = 0
    """Indexes emitted and not heard of since."""
    twins: tuple[ClaimId, ...] = ()
    """Claims that opened some of the same offsets: an end under one ends them all."""

    @property
    def open(self) -> int:
        mask = 0
        for part in self.parts:
            mask |= part.indexes
        return mask

    def close(self, indexes: int) -> None:
        """Take these indexes out."""
        for part in self.parts:
            part.indexes &= ~indexes
        self.parts = [part for part in self.parts if part.indexes]
        self.marked &= ~indexes


@dataclass(slots=True)
class Claimed:
    """The runs ever claimed of a source; only its newest epoch can open anything."""

    epoch: int
    runs: Runs = field(default_factory=Runs)


@dataclass(slots=True)
class State:
    """Fold of a hold-log partition up to `next_offset`."""

    next_offset: int = 0
    clock_ms: int = 0
    """The latest append time read. Delays go by it."""
    lease_clock_ms: int = 0
    """The clock leases go by: it stands still for a while after the clock has jumped."""
    grace_ms: int = 0
    """Until when it stands still."""
    claimed: dict[Stream, Claimed] = field(default_factory=dict)
    claims: dict[ClaimId, OpenClaim] = field(default_factory=dict)
    parked: ParkedEntries = field(default_factory=ParkedEntries)
    skipped: int = 0
    """Records that were no markers of ours."""
    restated_ms: int = 0
    """When the last restatement was read."""

    def claims_of(self, source: Source) -> Iterator[OpenClaim]:
        """The open claims of a source, oldest first."""
        return (claim for claim in list(self.claims.values()) if claim.source == source)

    def lapsed(self, part: Part) -> bool:
        """Whether the worker's say over these messages is over."""
        return part.deadline_ms - part.ahead_ms <= self.lease_clock_ms
