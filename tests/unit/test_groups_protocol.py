"""What an instance decides, rule by rule."""

from __future__ import annotations

from marq.groups import moves
from marq.groups.config import GroupConfig
from marq.groups.moves import InstanceAction, InstanceEvent, Why
from marq.groups.protocol import decide, proxy_hold
from marq.groups.records import ConfigRecord, ControlRecord, HoldingRecord, StepDown
from marq.groups.state import InstanceState, Phase
from marq.groups.table import EMPTY, Table, fold

CREATED = ConfigRecord("made", 1, GroupConfig(4, members=("a", "b")))
"""a shall have 0 and 1, b 2 and 3."""


class Instance:
    """An instance of member a, the log it reads, and all it was told to do."""

    def __init__(self, *log: ControlRecord) -> None:
        self.table = EMPTY
        self.state = InstanceState("a", "i")
        self.actions: list[InstanceAction] = []
        self.reads(*(log or (CREATED,)))

    def hears(self, *events: InstanceEvent) -> list[InstanceAction]:
        self.actions = []
        for event in events:
            self.state, actions = decide(self.state, event)
            self.actions += actions
        return self.actions

    def logged(self, *log: ControlRecord) -> Table:
        for record in log:
            self.table = fold(self.table, self.table.next, record)
        return self.table

    def reads(self, *log: ControlRecord) -> list[InstanceAction]:
        return self.hears(moves.Follow(self.logged(*log)))

    def claims(self) -> list[InstanceAction]:
        """Becomes the owner of what it shall have, up to the read-back."""
        self.hears(moves.Lapsed("c"))
        [append] = self.hears(moves.Initiated("c"))
        assert isinstance(append, moves.Append)
        return self.reads(append.hold)

    def starts(self) -> None:
        self.claims()
        self.hears(moves.Loaded("c", {0: 5, 1: 6}), moves.Recommitted("c", {0: 5, 1: 6}))
        assert self.state.running == {0, 1}


def members(version: int, *names: str) -> ConfigRecord:
    return ConfigRecord(f"v{version}", version, GroupConfig(4, members=names))


def hold(claim: str, member: str, prev: str, *partitions: int, n: int = 0) -> HoldingRecord:
    return HoldingRecord(claim, n, member, prev, partitions, 1, "i")


def test_a_claim_names_what_was_read_before_the_init_whatever_is_read_after_it() -> None:
    instance = Instance()
    instance.hears(moves.Lapsed("c"))
    instance.reads(hold("other", "a", "made", 0, 1))

    [append] = instance.hears(moves.Initiated("c"))

    assert isinstance(append, moves.Append)
    assert append.hold.prev == "made"


def test_a_claim_acts_only_on_what_is_read_back() -> None:
    instance = Instance()

    assert instance.hears(moves.Lapsed("c")) == [moves.Init("c")]
    [append] = instance.hears(moves.Initiated("c"))
    assert instance.hears(moves.Appended("c", 0, 1)) == []
    assert isinstance(append, moves.Append)
    assert instance.reads(append.hold) == [moves.Load("c", frozenset({0, 1}))]
    assert instance.state.phase is Phase.ACTIVE


def test_a_claim_that_came_second_is_given_up() -> None:
    instance = Instance()
    instance.hears(moves.Lapsed("c"))
    instance.logged(hold("other", "a", "made", 0, 1))
    [append] = instance.hears(moves.Initiated("c"))
    assert isinstance(append, moves.Append)

    found = [*instance.hears(moves.Appended("c", 0, 2)), *instance.reads(append.hold)]

    assert found == [moves.Discard(), moves.StandBy(Why.LOST)]
    assert instance.state.phase is Phase.STANDBY


def test_what_others_hold_is_not_asked_for() -> None:
    instance = Instance(CREATED, hold("x", "b", "made", 1, 2, 3))
    instance.hears(moves.Lapsed("c"))

    [append] = instance.hears(moves.Initiated("c"))

    assert isinstance(append, moves.Append)
    assert append.hold.partitions == (0,)


def test_delivery_starts_where_the_offsets_were_committed_again() -> None:
    instance = Instance()
    instance.claims()

    assert instance.hears(moves.Loaded("c", {0: 5, 1: 6})) == [moves.Recommit("c", {0: 5, 1: 6})]
    assert instance.hears(moves.Recommitted("c", {0: 5, 1: 6})) == [
        moves.Start("c", {0: 5, 1: 6}, {0: 1, 1: 1})
    ]


def test_answers_of_a_claim_given_up_are_ignored() -> None:
    instance = Instance()
    instance.claims()
    instance.hears(moves.WasFenced("c"))

    assert instance.hears(moves.Loaded("c", {0: 5}), moves.Recommitted("c", {0: 5})) == []


def test_a_partition_is_released_only_when_its_acks_are_done() -> None:
    instance = Instance()
    instance.starts()

    assert instance.reads(members(2, "a", "b", "c", "d")) == [moves.Drain("c", frozenset({1}))]
    [append] = instance.hears(moves.Drained("c", frozenset({1})))
    assert isinstance(append, moves.Append)
    assert (append.hold.partitions, append.hold.prev, append.hold.n) == ((0,), "c:0", 1)
    assert instance.reads(append.hold) == []
    assert instance.state.running == {0}
    assert not instance.state.drained


def test_what_is_wanted_again_waits_for_the_hold_that_leaves_it_out() -> None:
    instance = Instance()
    instance.starts()
    instance.reads(members(2, "a", "b", "c", "d"))
    [append] = instance.hears(moves.Drained("c", frozenset({1})))
    assert isinstance(append, moves.Append)

    assert instance.reads(members(3, "a", "b")) == []
    [again] = instance.reads(append.hold)

    assert isinstance(again, moves.Append)
    assert again.hold.partitions == (0, 1)
    assert instance.reads(again.hold) == [moves.Load("c", frozenset({1}))]


def test_what_is_wanted_again_before_it_was_released_starts_from_its_committed_offset() -> None:
    instance = Instance()
    instance.starts()
    instance.reads(members(2, "a", "b", "c", "d"), members(3, "a", "b"))
    instance.reads(members(4, "a", "b", "c", "d"))
    instance.reads(members(5, "a", "b"))

    assert instance.hears(moves.Drained("c", frozenset({1}))) == [moves.Load("c", frozenset({1}))]


def test_an_append_of_unknown_outcome_is_repeated_with_the_same_prev() -> None:
    instance = Instance()
    instance.hears(moves.Lapsed("c"))
    [first] = instance.hears(moves.Initiated("c"))

    [second] = instance.hears(moves.Unknown("c", 0))

    assert isinstance(first, moves.Append)
    assert isinstance(second, moves.Append)
    assert (second.hold.prev, second.hold.n) == (first.hold.prev, 1)
    assert instance.hears(moves.Unknown("c", 0)) == []
    assert instance.reads(first.hold) == [moves.Load("c", frozenset({0, 1}))]
    assert instance.reads(second.hold) == []


def test_whoever_is_superseded_stops() -> None:
    instance = Instance()
    instance.starts()

    assert instance.reads(hold("other", "a", "c:0", 0, 1)) == [
        moves.Discard(),
        moves.StandBy(Why.LOST),
    ]


def test_whoever_is_fenced_stops_and_resigns() -> None:
    instance = Instance()
    instance.starts()

    assert instance.hears(moves.WasFenced("c")) == [
        moves.Resign("c"),
        moves.Discard(),
        moves.StandBy(Why.FENCED),
    ]
    assert instance.state.phase is Phase.STANDBY


def test_stepping_down_drains_and_resigns_and_keeps_the_holds() -> None:
    instance = Instance()
    instance.starts()

    assert instance.reads(StepDown("s", "a", "c")) == [moves.Drain("c", frozenset({0, 1}))]
    assert instance.hears(moves.Drained("c", frozenset({0, 1}))) == [
        moves.Resign("c"),
        moves.Discard(),
        moves.StandBy(Why.STEPPED_DOWN),
    ]
    assert instance.state.is_candidate


def test_leaving_drains_resigns_and_ends() -> None:
    instance = Instance()
    instance.starts()

    assert instance.hears(moves.Leave()) == [moves.Drain("c", frozenset({0, 1}))]
    assert instance.hears(moves.Drained("c", frozenset({0, 1})))[-1] == moves.End()
    assert instance.hears(moves.Lapsed("d"), moves.Leave()) == []


def test_a_standby_leaves_at_once() -> None:
    assert Instance().hears(moves.Leave()) == [moves.End()]


def test_a_deleted_group_ends_its_instances() -> None:
    deleted = ConfigRecord("d", 2, CREATED.config, deleted=True)
    active = Instance()
    active.starts()

    assert Instance().reads(CREATED, deleted) == [moves.End()]
    assert active.reads(deleted) == [moves.Drain("c", frozenset({0, 1}))]
    assert active.hears(moves.Drained("c", frozenset({0, 1})))[-1] == moves.End()


def test_a_dropped_member_gives_everything_back_and_stands_by() -> None:
    instance = Instance()
    instance.starts()
    instance.reads(members(2, "b"))
    [append] = instance.hears(moves.Drained("c", frozenset({0, 1})))
    assert isinstance(append, moves.Append)
    assert append.hold.partitions == ()

    assert instance.reads(append.hold) == [
        moves.Resign("c"),
        moves.Discard(),
        moves.StandBy(Why.DROPPED),
    ]
    assert not instance.state.is_candidate


def test_no_member_of_a_static_group_ends_with_an_error() -> None:
    static = GroupConfig(4, kind="static", members=("x", "y"))

    [end] = Instance(ConfigRecord("made", 1, static)).actions

    assert end == moves.End("'a' is no member of this static group: x, y")


def test_a_dead_member_is_fenced_before_a_hold_is_written_in_its_name() -> None:
    instance = Instance(CREATED, hold("x", "b", "made", 1, 2, 3))
    instance.claims()

    assert instance.hears(moves.MemberOverdue("b", "p")) == [moves.ProxyInit("p", "b")]
    instance.reads(hold("y", "b", "x:0", 1, 2, 3))
    [append] = instance.hears(moves.ProxyInitiated("p"))

    assert append == moves.Append(HoldingRecord("p", 0, "b", "x:0", (2, 3), 1, proxy=True))


def test_whoever_holds_nothing_of_ours_is_not_fenced() -> None:
    instance = Instance(CREATED, hold("x", "b", "made", 2, 3))
    instance.claims()

    assert instance.hears(moves.MemberOverdue("b", "p")) == []
    assert instance.hears(moves.MemberOverdue("a", "p")) == []


def test_a_freed_partition_is_taken() -> None:
    instance = Instance(CREATED, hold("x", "b", "made", 1, 2, 3))
    instance.claims()
    hold_of_b = proxy_hold(instance.table, "b", "p", frozenset({2, 3}))

    [append] = instance.reads(hold_of_b)

    assert isinstance(append, moves.Append)
    assert append.hold.partitions == (0, 1)
