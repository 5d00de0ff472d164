"""An instance as a process: the product's own decisions, with everything between them left to
chance. Also the ways to break the rules one by one."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from msgspec.structs import replace

from marq.groups import moves
from marq.groups.moves import InstanceAction, InstanceEvent
from marq.groups.protocol import decide
from marq.groups.records import HoldingRecord
from marq.groups.state import InstanceState, Phase
from marq.groups.table import Table, fold
from tests.properties.chance import Chance
from tests.properties.groups_broker import Broker, Txn

KNOCK_OUTS = (
    "holds-before-init",
    "committed-before-init",
    "prev-after-init",
    "claim-record-after-init",
    "no-read-back",
    "no-proxy-init",
    "last-hold-counts",
    "unstable-committed",
    "old-position",
    "early-release",
)
_ids = count()


@dataclass(eq=False)
class Flying:
    """A hold in the network; whoever sent it may not hear of it."""

    hold: HoldingRecord
    sender: Process | None


@dataclass(eq=False)
class Process:
    """One instance of a member."""

    broker: Broker
    member: str
    network: list[Flying | Txn]
    state: InstanceState = field(init=False)
    read: int = 0
    epoch: int | None = None
    todo: list[InstanceAction | InstanceEvent] = field(default_factory=list)
    """Actions to perform and answers to hear, in any order."""
    positions: dict[int, int] = field(default_factory=dict)
    txn: Txn | None = None
    flying: Flying | None = None
    before_init: list[int] = field(default_factory=list)
    imagined: HoldingRecord | None = None
    """Knocked out: what it held by what it had read before the init."""
    unread: int | None = None
    """Knocked out: acts as if it had read its record at this offset (-1: in the network)."""

    def __post_init__(self) -> None:
        self.state = InstanceState(self.member, f"{self.member}{next(_ids)}")

    # Steps.

    def hear(self, event: InstanceEvent) -> None:
        try:
            self.state, actions = decide(self.state, event)
        except KeyError:
            if not self.broker.knocked_out:
                raise
            return  # one that believes what is not in the log may stumble over it
        for action in actions:
            self._begin(action)

    def follow(self, chance: Chance) -> None:
        """Read on, a record or all there is."""
        behind = len(self.broker.tables) - 1 - self.read
        if behind:
            self.read += chance.pick((1, behind))
            if self.unread is None or self.read > self.unread >= 0:
                self.unread = None
                self.hear(moves.Follow(self._seen(self.broker.tables[self.read])))

    def step(self, chance: Chance) -> None:
        """Perform an action, or hear an answer."""
        if self.todo:
            self._do(self.todo.pop(chance.below(len(self.todo))))

    def ack(self, chance: Chance) -> None:
        """Begin a transaction that acks messages of some partitions."""
        ready = [number for number in self.state.running if number in self.positions]
        if ready and self.txn is None and self.epoch is not None:
            spans = {
                number: (self.positions[number], self.positions[number] + 1 + chance.below(2))
                for number in chance.some(sorted(ready))
            }
            self._send(Txn(self.member, self.epoch, self.state.claim, spans))

    def _send(self, txn: Txn) -> None:
        self.txn = txn
        self.network.append(txn)

    def hear_of_txn(self) -> None:
        """The outcome of the transaction, once there is one."""
        txn = self.txn
        if txn is None or not txn.over:
            return
        self.txn = None
        if txn.stage == "refused":
            return self.hear(moves.WasFenced(txn.claim))
        if txn.recommits:
            offsets = {number: end for number, (_, end) in txn.spans.items()}
            self.todo.append(moves.Recommitted(txn.claim, offsets))
        else:
            self.positions |= {number: end for number, (_, end) in txn.spans.items()}

    def give_up(self) -> None:
        """An outcome stays unknown: the producer is thrown away."""
        if self.state.claim and self.epoch is not None:
            self.hear(moves.WasFenced(self.state.claim))

    def hear_nothing(self) -> None:
        """Whether an append was taken stays unknown; it may land later."""
        if (flying := self.flying) is not None:
            flying.sender = self.flying = None
            self.hear(moves.Unknown(flying.hold.claim, flying.hold.n))

    # Actions.

    def _begin(self, action: InstanceAction) -> None:
        """Some take effect at once, others whenever they do."""
        match action:
            case moves.Discard():
                self.epoch = self.txn = self.flying = self.unread = None
                self._forget(frozenset(self.positions))
                self.todo = [it for it in self.todo if _is_of_proxy(it)]
            case moves.Start(_, offsets, _):
                for number, offset in offsets.items():
                    self.positions[number] = self._kept(number, offset)
            case moves.Init():
                self.before_init = list(self.broker.committed)
                self.todo.append(action)
            case moves.Resign() | moves.StandBy() | moves.End():
                pass
            case _:
                self.todo.append(action)

    def _do(self, what: InstanceAction | InstanceEvent) -> None:
        match what:
            case moves.Init(claim):
                self.epoch = self.broker.init(self.member)
                self.todo.append(moves.Initiated(claim))
            case moves.ProxyInit(claim, member):
                if self.broker.knocked_out != "no-proxy-init":
                    self.broker.init(member)
                self.todo.append(moves.ProxyInitiated(claim))
            case moves.Append(hold):
                self._append(hold)
            case moves.Load(claim, partitions):
                self._load(what, claim, partitions)
            case moves.Recommit(claim, offsets):
                self._recommit(what, claim, offsets)
            case moves.Drain(claim, partitions):
                self._drain(what, claim, partitions)
            case _:
                self.hear(what)  # type: ignore[arg-type]

    def _append(self, hold: HoldingRecord) -> None:
        out = self.broker.knocked_out
        claims = not hold.proxy and self.state.phase is Phase.CLAIMING
        if claims and out == "prev-after-init":
            hold = replace(hold, prev=self.broker.tables[self.read].prev(self.member))
        if claims and out == "claim-record-after-init":
            hold = replace(hold, prev=self.broker.truth.prev(self.member))
        if claims and out == "no-r2":
            hold = replace(hold, partitions=tuple(sorted(self.state.table.wanted(self.member))))
        flying = Flying(hold, None if hold.proxy else self)
        self.network.append(flying)
        if not hold.proxy:
            self.flying = flying
            if out == "no-read-back":
                self._believe(hold)

    def landed(self, flying: Flying, offset: int) -> None:
        if self.flying is flying:
            self.flying = None
            if self.unread == -1:
                self.unread = offset
            self.todo.append(moves.Appended(flying.hold.claim, flying.hold.n, offset))

    def _load(self, action: InstanceAction, claim: str, partitions: frozenset[int]) -> None:
        out = self.broker.knocked_out
        if out == "committed-before-init" and self.before_init:
            found = self.before_init
        elif out == "unstable-committed" or self.broker.is_stable(partitions):
            found = self.broker.committed
        else:
            self.todo.append(action)  # not stable: ask again
            return
        self.todo.append(moves.Loaded(claim, {number: found[number] for number in partitions}))

    def _recommit(self, action: InstanceAction, claim: str, offsets: dict[int, int]) -> None:
        if self.txn is None and self.epoch is not None:
            spans = {number: (at, at) for number, at in offsets.items()}
            self._send(Txn(self.member, self.epoch, claim, spans))
        else:
            self.todo.append(action)

    def _drain(self, action: InstanceAction, claim: str, partitions: frozenset[int]) -> None:
        early = self.broker.knocked_out == "early-release"
        if self.txn is not None and partitions & self.txn.spans.keys() and not early:
            self.todo.append(action)
            return
        self._forget(partitions)
        self.todo.append(moves.Drained(claim, partitions))

    # Breaking the rules.

    def _forget(self, partitions: frozenset[int]) -> None:
        if self.broker.knocked_out != "old-position":
            for number in partitions:
                self.positions.pop(number, None)

    def _kept(self, number: int, offset: int) -> int:
        old = self.broker.knocked_out == "old-position"
        return self.positions.get(number, offset) if old else offset

    def _believe(self, hold: HoldingRecord) -> None:
        """Act as if the record stood in the log as far as it is read."""
        self.unread = -1
        table = self.state.table
        believed = replace(hold, prev=table.prev(self.member))
        self.hear(moves.Follow(fold(table, table.next, believed)))

    def _seen(self, table: Table) -> Table:
        """What it makes of the table; with this knock-out, it holds what it thought free before."""
        if self.broker.knocked_out != "holds-before-init":
            return table
        if self.state.phase is Phase.CLAIMING:
            self.imagined = self.state.underway
        hold = self.imagined
        if hold is None or table.claim(self.member) != hold.claim:
            return table
        holder = table.holders[self.member]
        if holder.latest.n == hold.n:
            fences = {number: table.next for number in hold.partitions}
            holder = replace(holder, held=frozenset(hold.partitions), fences=fences)
        return replace(table, holders={**table.holders, self.member: holder})


def _is_of_proxy(what: InstanceAction | InstanceEvent) -> bool:
    match what:
        case moves.ProxyInit() | moves.ProxyInitiated():
            return True
        case moves.Append(hold):
            return hold.proxy
    return False
