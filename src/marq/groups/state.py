"""Where an instance of a member stands: a value that only `protocol.decide` changes."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from marq.groups.moves import InstanceAction
from marq.groups.records import HoldingRecord
from marq.groups.table import EMPTY, NOTHING, Table


class Phase(StrEnum):
    """Where an instance stands."""

    STANDBY = "standby"
    INITIATING = "initiating"
    CLAIMING = "claiming"
    ACTIVE = "active"
    LEAVING = "leaving"
    ENDED = "ended"


class InstanceState(Struct, frozen=True):
    """One instance. Each partition held is in one of four sets: running, loading, draining,
    drained."""

    member: str
    instance: str
    phase: Phase = Phase.STANDBY
    table: Table = EMPTY
    claim: str = ""
    underway: HoldingRecord | None = None
    """The hold being claimed with, or appended and not read back yet."""
    appended_at: int | None = None
    """Its offset, where known."""
    appends: int = 0
    """Of this claim, so far."""
    own: int = -1
    """n of our latest valid hold."""
    running: frozenset[int] = NOTHING
    loading: frozenset[int] = NOTHING
    draining: frozenset[int] = NOTHING
    drained: frozenset[int] = NOTHING
    """May be left out of the next hold."""
    proxy: HoldingRecord | None = None
    """What to append on behalf of another member, once it is fenced."""
    ends: bool = False
    """The user stops it."""

    @property
    def is_candidate(self) -> bool:
        """Whether it would claim if nobody had the lease."""
        return self.phase is Phase.STANDBY and bool(self.table.wanted(self.member))


Decision = tuple[InstanceState, list[InstanceAction]]
