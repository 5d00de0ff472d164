"""What the fold of one hold-log partition knows: O(open), never O(history)."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Struct

from marq.core.fold.parked import ParkedEntries
from marq.core.fold.sources import Sources, Stream
from marq.core.markers import claimed
from marq.core.markers.marker import ClaimId, Part, Source


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


class OpenClaims(dict[ClaimId, OpenClaim]):
    """Open claims by id, in the order they were opened in; each source knows its own."""

    def __init__(self) -> None:
        super().__init__()
        self._by_source: dict[Source, dict[ClaimId, OpenClaim]] = {}

    def __setitem__(self, name: ClaimId, claim: OpenClaim) -> None:
        super().__setitem__(name, claim)
        self._by_source.setdefault(claim.source, {})[name] = claim

    def __delitem__(self, name: ClaimId) -> None:
        source = self[name].source
        super().__delitem__(name)
        of_source = self._by_source[source]
        del of_source[name]
        if not of_source:
            del self._by_source[source]

    def of(self, source: Source) -> list[OpenClaim]:
        """Those of a source, oldest first."""
        return list(self._by_source.get(source, {}).values())


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
    claimed: Sources = field(default_factory=Sources)
    claims: OpenClaims = field(default_factory=OpenClaims)
    parked: ParkedEntries = field(default_factory=ParkedEntries)
    skipped: int = 0
    """Records that were no markers of ours."""
    restated_ms: int = 0
    """When the last restatement was read."""
    told_to: int = 0
    """Who was told of all sources; from then on, of those at work."""
    forgotten: list[Stream] = field(default_factory=list)
    """Sources that were forgotten in this batch."""

    def claims_of(self, source: Source) -> list[OpenClaim]:
        """The open claims of a source, oldest first."""
        return self.claims.of(source)

    def put_idle_aside(self) -> None:
        """Keep at hand only sources that are at work."""
        self.claimed.put_aside(
            self.clock_ms, lambda s, epoch: bool(self.claims.of(Source(*s, epoch)))
        )

    def lapsed(self, part: Part) -> bool:
        """Whether the worker's say over these messages is over."""
        return part.deadline_ms - part.ahead_ms <= self.lease_clock_ms
