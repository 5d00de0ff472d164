"""The events an instance of a member hears, and the actions it answers with: values only.

Every event that answers an action carries that action's claim: what comes late, from a claim that
was given up meanwhile, is ignored.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from marq.groups.records import HoldingRecord
from marq.groups.table import Table

Partitions = frozenset[int]
PartitionOffsets = dict[int, int]


# Events.


class Follow(Struct, frozen=True):
    """The control log was read further."""

    table: Table


class Lapsed(Struct, frozen=True):
    """Nobody has the member's lease; `claim` is a fresh id to claim it with."""

    claim: str


class Initiated(Struct, frozen=True):
    """init_transactions has returned: whoever had the member's id before is fenced."""

    claim: str


class InitFailed(Struct, frozen=True):
    """It has not."""

    claim: str


class Appended(Struct, frozen=True):
    """The control log took a hold, at this offset."""

    claim: str
    n: int
    offset: int


class Unknown(Struct, frozen=True):
    """Whether the control log took the hold is not known."""

    claim: str
    n: int


class Loaded(Struct, frozen=True):
    """The committed offsets of partitions, read after the grant was read back."""

    claim: str
    offsets: PartitionOffsets


class Recommitted(Struct, frozen=True):
    """They were committed again by us: we are not fenced."""

    claim: str
    offsets: PartitionOffsets


class Drained(Struct, frozen=True):
    """Nothing of these partitions is handed out, or in a transaction that is open or unknown."""

    claim: str
    partitions: Partitions


class WasFenced(Struct, frozen=True):
    """The broker refused our producer, or it had to be thrown away."""

    claim: str


class MemberOverdue(Struct, frozen=True):
    """A member that is dead, or takes too long, holds what we should have."""

    member: str
    claim: str
    """A fresh id, for a claim on its behalf."""


class ProxyInitiated(Struct, frozen=True):
    """init_transactions with the other member's id has returned: it is fenced."""

    claim: str


class ProxyFailed(Struct, frozen=True):
    """It has not."""

    claim: str


class Leave(Struct, frozen=True):
    """The user stops this instance."""


InstanceEvent = (
    Follow | Lapsed | Initiated | InitFailed | Appended | Unknown | Loaded | Recommitted
    | Drained | WasFenced | MemberOverdue | ProxyInitiated | ProxyFailed | Leave
)  # fmt: skip


# Actions.


class Init(Struct, frozen=True):
    """Call init_transactions with the member's transactional id, and keep that producer."""

    claim: str


class ProxyInit(Struct, frozen=True):
    """The same with another member's id; close that producer afterwards."""

    claim: str
    member: str


class Append(Struct, frozen=True):
    """Append a hold to the control log."""

    hold: HoldingRecord


class Load(Struct, frozen=True):
    """Read the committed offsets, read_committed. Positions known from before do not count."""

    claim: str
    partitions: Partitions


class Recommit(Struct, frozen=True):
    """Commit these offsets in one transaction."""

    claim: str
    offsets: PartitionOffsets


class Start(Struct, frozen=True):
    """Deliver from these offsets."""

    claim: str
    offsets: PartitionOffsets
    fences: dict[int, int]


class Drain(Struct, frozen=True):
    """Hand out nothing more of these, finish their acks, and forget their positions."""

    claim: str
    partitions: Partitions


class Discard(Struct, frozen=True):
    """Stop everything at once; throw the producer away."""


class Resign(Struct, frozen=True):
    """Write to the lease topic that the claim is over, so that nobody waits for it."""

    claim: str


class Why(StrEnum):
    """What an instance rests for before it is a candidate again."""

    LOST = "lost"
    """Another claimed first: a random while."""
    FENCED = "fenced"
    """No re-claim by itself: whoever fenced it goes first."""
    STEPPED_DOWN = "stepped down"
    """One second, for the standbys."""
    DROPPED = "dropped"
    """No member any more, or nothing to have."""


class StandBy(Struct, frozen=True):
    """Be a standby."""

    why: Why


class End(Struct, frozen=True):
    """It is over; with a sentence if something is wrong."""

    error: str = ""


InstanceAction = (
    Init | ProxyInit | Append | Load | Recommit | Start | Drain | Discard | Resign | StandBy | End
)
