"""The lock table: the fold of the control log, in log order. Everyone who reads it agrees.

1. A config is valid iff its version is the current one + 1.
2. A hold of m is valid iff its `prev` is the id of m's latest valid hold, and the group is not
   deleted; else it changes nothing.
3. A valid hold sets what m holds to what it lists, minus what any other member holds.
4. The owner claim of m is the claim of its latest valid hold; stepdowns that name another are void.
5. The fence of a partition is the offset of the owner claim's hold that granted it; a claim's first
   valid hold stamps all it is granted anew. So a fence only rises, across members and takeovers.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from marq.groups import allocation
from marq.groups.allocation import Owners
from marq.groups.config import GroupConfig
from marq.groups.records import ConfigRecord, ControlRecord, HoldingRecord, StepDown

NOTHING: frozenset[int] = frozenset()


class Holder(Struct, frozen=True):
    """What the log says of one member."""

    latest: HoldingRecord
    """Its latest valid hold; the owner claim is this one's."""
    held: frozenset[int]
    fences: dict[int, int]
    stepping: bool = False
    """The owner claim was asked to step down."""


class Table(Struct, frozen=True):
    """The state of a group after the control log's first `next` offsets."""

    next: int = 0
    incarnation: str = ""
    """The id of the record that created the group."""
    version: int = 0
    config: GroupConfig | None = None
    """None: not created yet, or deleted."""
    deleted: bool = False
    sources: tuple[int, ...] = ()
    """By partition of the queue, where copying starts: as the group was created."""
    target: Owners = ()
    """By partition, the member that shall have it."""
    holders: dict[str, Holder] = {}

    def prev(self, member: str) -> str:
        """What the member's next hold must name."""
        found = self.holders.get(member)
        return found.latest.id if found else self.incarnation

    def claim(self, member: str) -> str:
        """The owner claim."""
        found = self.holders.get(member)
        return found.latest.claim if found else ""

    def held(self, member: str) -> frozenset[int]:
        found = self.holders.get(member)
        return found.held if found else NOTHING

    def wanted(self, member: str) -> frozenset[int]:
        """What the member shall hold by the config."""
        return allocation.partitions_of(member, self.target)

    def held_by_others(self, member: str) -> frozenset[int]:
        return NOTHING.union(*(each.held for name, each in self.holders.items() if name != member))


EMPTY = Table()


def fold(table: Table, offset: int, record: ControlRecord | None) -> Table:
    """The table after one more record of the log; None: one that is not ours."""
    match record:
        case ConfigRecord():
            table = _configured(table, record)
        case HoldingRecord():
            table = _holding(table, offset, record)
        case StepDown():
            table = _stepping(table, record)
    return replace(table, next=offset + 1)


def _configured(table: Table, record: ConfigRecord) -> Table:
    if record.version != table.version + 1 or table.deleted:
        return table
    return replace(
        table,
        incarnation=table.incarnation or record.id,
        version=record.version,
        config=None if record.deleted else record.config,
        deleted=record.deleted,
        sources=table.sources or record.sources,
        target=() if record.deleted else allocation.owners(record.config, table.target),
    )


def _holding(table: Table, offset: int, hold: HoldingRecord) -> Table:
    # After the end nobody may hold: whoever deletes the group fences all who did.
    if not table.incarnation or table.deleted or hold.prev != table.prev(hold.member):
        return table
    before = table.holders.get(hold.member)
    held = frozenset(hold.partitions) - table.held_by_others(hold.member)
    kept = before.fences if before and before.latest.claim == hold.claim else {}
    fences = {number: kept.get(number, offset) for number in held}
    stepping = before is not None and before.latest.claim == hold.claim and before.stepping
    holder = Holder(hold, held, fences, stepping)
    return replace(table, holders={**table.holders, hold.member: holder})


def _stepping(table: Table, record: StepDown) -> Table:
    before = table.holders.get(record.member)
    if before is None or before.latest.claim != record.claim:
        return table
    holders = {**table.holders, record.member: replace(before, stepping=True)}
    return replace(table, holders=holders)
