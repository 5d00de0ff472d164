"""Instances, admins and a network to which anything happens, in any order."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from msgspec.structs import replace

from marq.groups import moves
from marq.groups.config import GroupConfig, Mapping
from marq.groups.records import ConfigRecord, ControlRecord, StepDown
from marq.groups.state import Phase
from tests.properties.chance import Chance
from tests.properties.groups_broker import CREATED, MEMBERS, PARTITIONS, Broker, Txn
from tests.properties.groups_process import Flying, Process

INSTANCES = 2
_HARMLESS = 5
"""The first happenings are what normally happens."""
_MEMBERSHIPS: tuple[dict[str, object], ...] = (
    {"members": MEMBERS},
    {"members": MEMBERS[:2]},
    {"members": MEMBERS[1:]},
    {"members": MEMBERS[:1]},
    {"members": (MEMBERS[2],)},
    {"members": ()},
    {"member_mappings": (Mapping("a", (1, 3)), Mapping("b", (0, 2)))},
    {"member_mappings": (Mapping("b", (0, 1)), Mapping("c", (2, 3)))},
)


class World:
    """Three members with two instances each, and admins who do not know of each other."""

    def __init__(self, chance: Chance, knocked_out: str = "") -> None:
        self.chance = chance
        self.broker = Broker(knocked_out)
        self.network: list[Flying | Txn] = []
        self.records: list[ControlRecord] = []
        """Of admins, not in the log yet."""
        self._ids = count()
        self._peace = chance.pick((1, 3, 9))
        """One in so many things that could go wrong does."""
        self._marker_delay = chance.pick((1, 4, 40))
        self.broker.append(CREATED)
        self.processes = [self._new(name) for name in MEMBERS for _ in range(INSTANCES)]
        self._mishaps: list[Callable[[Process], None]] = [
            self.crash,
            lambda each: each.give_up(),
            lambda each: each.hear_nothing(),
            lambda each: self.lose(),
            self.step_down,
            lambda each: each.hear(moves.Leave()),
        ]
        self._happenings: list[tuple[int, Callable[[Process], None]]] = [
            (44, lambda each: each.follow(chance)),
            (60, lambda each: each.step(chance)),
            (40, lambda each: each.ack(chance)),
            (30, lambda each: each.hear_of_txn()),
            (70, lambda each: self.land()),
            (3, self.lapse),
            (2, self.overdue),
            (1, lambda each: self.change_config()),
            (2, lambda each: self.admin_lands()),
            (2, lambda each: chance.pick(self._mishaps)(each)),
        ]
        self._weights = [n for n, (weight, _) in enumerate(self._happenings) for _ in range(weight)]

    def _new(self, member: str) -> Process:
        return Process(self.broker, member, self.network)

    def run(self) -> None:
        """Until chance is used up. Mostly the same process goes on for a while: a pause of the
        others, of any length, between any two of their steps."""
        while self.chance.left():
            slot = self.chance.below(len(self.processes))
            for _ in range(self.chance.pick((1, 3, 8, 20))):
                if self.processes[slot].state.phase is Phase.ENDED:
                    self.crash(self.processes[slot])  # someone starts it again
                process = self.processes[slot]
                which = self.chance.pick(self._weights)
                if which < _HARMLESS or not self.chance.below(self._peace):
                    self._happenings[which][1](process)

    # The network.

    def land(self) -> None:
        """Something arrives: a hold at the log, a step of a transaction at its coordinator."""
        if self.network:
            self._land(self.network[-1 - self.chance.below(len(self.network))])

    def _land(self, what: Flying | Txn) -> None:
        if isinstance(what, Txn):
            if what.stage == "decided" and self.chance.below(self._marker_delay):
                return  # the markers of a decided transaction take a while
            self.broker.advance(what)
            if what.stage in ("applied", "refused"):
                self.network.remove(what)
        else:
            self.network.remove(what)
            offset = self.broker.append(what.hold)
            if what.sender is not None:
                what.sender.landed(what, offset)

    def lose(self) -> None:
        """A hold never arrives."""
        if lost := [each for each in self.network if isinstance(each, Flying)]:
            self.network.remove(self.chance.pick(lost))

    # What befalls instances.

    def lapse(self, process: Process) -> None:
        """Leases lapse at any moment, whoever lives."""
        process.hear(moves.Lapsed(f"{process.state.instance}.{next(self._ids)}"))

    def overdue(self, process: Process) -> None:
        other = self.chance.pick(MEMBERS)
        process.hear(
            moves.MemberOverdue(other, f"{process.state.instance}-for-{other}{next(self._ids)}")
        )

    def crash(self, process: Process) -> None:
        self.processes[self.processes.index(process)] = self._new(process.member)

    # Admins.

    def change_config(self) -> None:
        """Made by what an admin has read, which may be old."""
        table = self.chance.pick(self.broker.tables[-1:0:-1][:3])
        config = GroupConfig(PARTITIONS, **self.chance.pick(_MEMBERSHIPS))  # type: ignore[arg-type]
        if self.chance.below(2):
            config = replace(config, allocation="sticky")
        self.records.append(ConfigRecord(f"config{next(self._ids)}", table.version + 1, config))

    def step_down(self, process: Process) -> None:
        claim = self.broker.tables[process.read].claim(process.member)
        self.records.append(StepDown(f"down{next(self._ids)}", process.member, claim))

    def admin_lands(self) -> None:
        if self.records:
            self.broker.append(self.records.pop(self.chance.below(len(self.records))))

    # In the end.

    def calm_down(self) -> None:
        """No more faults: everything lands, everyone reads, leases tell the truth."""
        self._marker_delay = 1
        self._all_lands()
        for _ in range(60):
            for number, process in enumerate(self.processes):
                if process.state.phase is Phase.ENDED:
                    self.processes[number] = self._new(process.member)
                self._go_on(self.processes[number])
            if self._is_settled():
                return
        raise AssertionError(f"not settled: {self._shown()}")

    def _all_lands(self) -> None:
        while self.network:
            for what in list(self.network):
                self._land(what)

    def _go_on(self, process: Process) -> None:
        calm = Chance(b"\1" * 200)
        for _ in range(6):
            process.follow(calm)
            for _ in range(len(process.todo)):
                process.step(Chance(b""))
            self._all_lands()
            process.hear_of_txn()
            if process.flying not in self.network:
                process.hear_nothing()  # it was lost
        if not self._is_live(process.member):
            self.lapse(process)
        for other in MEMBERS:
            if not self._is_live(other):
                process.hear(moves.MemberOverdue(other, f"calm{next(self._ids)}"))

    def _is_live(self, member: str) -> bool:
        """Whether an instance acts, or is about to, under the owner claim; or claims right now."""
        busy = (Phase.INITIATING, Phase.CLAIMING)
        return any(
            each.member == member
            and (
                each.state.claim == self.broker.truth.claim(member) != ""
                or each.state.phase in busy
            )
            for each in self.processes
        )

    def _is_settled(self) -> bool:
        truth = self.broker.truth
        return all(
            truth.held(member) >= truth.wanted(member) == self._running(member)
            for member in MEMBERS
        )

    def _running(self, member: str) -> frozenset[int]:
        running = [each.state.running for each in self.processes if each.member == member]
        return frozenset[int]().union(*running)

    def _shown(self) -> str:
        truth = self.broker.truth
        return f"{truth.target} {truth.holders} {[each.state for each in self.processes]}"
