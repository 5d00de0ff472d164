"""Kafka as ordered groups use it: a control log, transactions that fence, offsets of a group.

Everything sent is in the network until it lands, which may be never, or long after whoever sent it
has died. The book of what was acked is kept here, where an ack becomes a fact.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from marq.groups.config import GroupConfig
from marq.groups.records import ConfigRecord, ControlRecord, HoldingRecord
from marq.groups.table import EMPTY, Table, fold

PARTITIONS = 4
MEMBERS = ("a", "b", "c")
CREATED = ConfigRecord("made", 1, GroupConfig(PARTITIONS, members=MEMBERS))


class Violation(AssertionError):
    """An offset was acked twice, out of order, or by a claim the log does not grant it to."""


@dataclass(eq=False)
class Txn:
    """A transaction that acks: for each partition, from one offset up to another."""

    member: str
    epoch: int
    claim: str
    spans: dict[int, tuple[int, int]]
    stage: str = "flying"
    """flying, sent (the offsets are pending), decided, applied; or refused."""

    @property
    def recommits(self) -> bool:
        """Whether it acks nothing: the first of a partition newly granted."""
        return all(start == end for start, end in self.spans.values())

    @property
    def over(self) -> bool:
        return self.stage in ("decided", "applied", "refused")


@dataclass
class Broker:
    """The truth."""

    knocked_out: str = ""
    log: list[ControlRecord] = field(default_factory=list)
    tables: list[Table] = field(default_factory=lambda: [EMPTY])
    """After each record; what any reader knows is one of these."""
    epochs: dict[str, int] = field(default_factory=dict)
    pending: list[Txn] = field(default_factory=list)
    """Sent or decided, not applied yet."""
    committed: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    acked: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    acks: int = 0

    @property
    def truth(self) -> Table:
        return self.tables[-1]

    def append(self, record: ControlRecord) -> int:
        offset = len(self.log)
        if isinstance(record, HoldingRecord) and self.knocked_out == "last-hold-counts":
            record = replace(record, prev=self.truth.prev(record.member))
        self.log.append(record)
        self.tables.append(fold(self.truth, offset, record))
        return offset

    # Transactions.

    def init(self, member: str) -> int:
        """A new epoch: what was decided is applied, what was not is aborted."""
        self.epochs[member] = self.epochs.get(member, 0) + 1
        for txn in [each for each in self.pending if each.member == member]:
            if txn.stage == "decided":
                self.apply(txn)
            else:
                self._refuse(txn)
        return self.epochs[member]

    def _refuse(self, txn: Txn) -> None:
        txn.stage = "refused"
        if txn in self.pending:
            self.pending.remove(txn)

    def advance(self, txn: Txn) -> None:
        """The transaction's next step at the broker."""
        match txn.stage:
            case "flying" | "sent" if txn.epoch != self.epochs.get(txn.member, 0):
                self._refuse(txn)
            case "flying":
                # One at a time: the next waits until the last one's markers are written.
                if not any(each.member == txn.member for each in self.pending):
                    txn.stage = "sent"
                    self.pending.append(txn)
            case "sent":
                self._decide(txn)
            case "decided":
                self.apply(txn)

    def _decide(self, txn: Txn) -> None:
        txn.stage = "decided"
        for number, (start, end) in txn.spans.items():
            if start != self.acked[number]:
                what = f"{number}: {start}..{end} acked where {self.acked[number]} is next"
                raise Violation(f"{what}, by {txn.claim}")
            if self.truth.claim(txn.member) != txn.claim:
                raise Violation(f"{number} acked by {txn.claim}, which is not the owner claim")
            if number not in self.truth.held(txn.member):
                raise Violation(f"{number} acked by {txn.claim}, which does not hold it")
            self.acked[number] = end
            self.acks += end - start

    def apply(self, txn: Txn) -> None:
        txn.stage = "applied"
        self.pending.remove(txn)
        for number, (_, end) in txn.spans.items():
            self.committed[number] = end

    def is_stable(self, partitions: frozenset[int]) -> bool:
        """Whether a read_committed reader gets an answer now."""
        return not any(partitions & txn.spans.keys() for txn in self.pending)
