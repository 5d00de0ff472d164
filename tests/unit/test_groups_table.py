"""The lock table: what a control log says, record by record; and who is alive."""

from __future__ import annotations

from marq.groups import records
from marq.groups.config import GroupConfig
from marq.groups.records import ConfigRecord, ControlRecord, HoldingRecord, LeaseBeat, StepDown
from marq.groups.table import EMPTY, Table, fold
from marq.groups.watch import LeaseWatch

CREATED = ConfigRecord("made", 1, GroupConfig(4, members=("a", "b")))


def hold(claim: str, member: str, prev: str, *partitions: int, n: int = 0) -> HoldingRecord:
    return HoldingRecord(claim, n, member, prev, partitions, 1, "i")


def table(*log: ControlRecord | None) -> Table:
    found = EMPTY
    for offset, record in enumerate(log):
        found = fold(found, offset, record)
    return found


def test_the_first_of_two_changes_wins() -> None:
    first = ConfigRecord("x", 2, GroupConfig(4, members=("a",)))
    second = ConfigRecord("y", 2, GroupConfig(4, members=("b",)))

    found = table(CREATED, first, second)

    assert (found.version, found.target) == (2, ("a", "a", "a", "a"))
    assert found.incarnation == "made"


def test_a_hold_counts_only_after_the_one_it_names() -> None:
    log: list[ControlRecord] = [CREATED, hold("c1", "a", "made", 0, 1), hold("c2", "a", "made", 0)]

    assert table(*log).claim("a") == "c1"
    assert table(*log, hold("c2", "a", "c1:0", 0)).held("a") == {0}


def test_nothing_is_held_before_the_group_is_created() -> None:
    assert table(hold("c1", "a", "", 0)).holders == {}


def test_the_first_holder_of_a_partition_keeps_it() -> None:
    found = table(CREATED, hold("c1", "a", "made", 0, 1), hold("c2", "b", "made", 1, 2))

    assert found.held("a") == {0, 1}
    assert found.held("b") == {2}


def test_a_fence_only_rises() -> None:
    log: list[ControlRecord] = [
        CREATED,
        hold("c1", "a", "made", 0, 1),
        hold("c1", "a", "c1:0", 0, n=1),
        hold("c2", "b", "made", 1),
        hold("c2", "b", "c2:0", n=1),
        hold("c1", "a", "c1:1", 0, 1, n=2),
        hold("c3", "a", "c1:2", 0, 1),
    ]

    assert table(*log[:3]).holders["a"].fences == {0: 1}
    assert table(*log[:4]).holders["b"].fences == {1: 3}
    assert table(*log[:6]).holders["a"].fences == {0: 1, 1: 5}
    assert table(*log).holders["a"].fences == {0: 6, 1: 6}


def test_a_step_down_hits_the_claim_it_names_and_no_other() -> None:
    log: list[ControlRecord] = [CREATED, hold("c1", "a", "made", 0), StepDown("s", "a", "c0")]

    assert not table(*log).holders["a"].stepping
    stepping = [*log, StepDown("s", "a", "c1")]
    assert table(*stepping).holders["a"].stepping
    assert table(*stepping, hold("c1", "a", "c1:0", n=1)).holders["a"].stepping
    assert not table(*stepping, hold("c2", "a", "c1:0")).holders["a"].stepping


def test_a_deleted_group_wants_nobody_and_stays_deleted() -> None:
    found = table(CREATED, ConfigRecord("d", 2, CREATED.config, deleted=True))

    assert found.deleted
    assert found.wanted("a") == frozenset()
    assert fold(found, 2, ConfigRecord("e", 3, CREATED.config)).deleted
    assert not fold(found, 2, hold("c1", "a", "made", 0)).holders


def test_records_of_others_are_passed_over() -> None:
    assert records.decode(b"no json") is None
    assert records.decode(None) is None
    assert records.decode(b'{"record":"other"}') is None
    assert records.decode_lease(b"[]") is None
    assert table(CREATED, None).next == 2


def test_a_record_reads_as_it_was_written() -> None:
    for record in (CREATED, hold("c", "é", "p", 1), StepDown("s", "a", "c")):
        assert records.decode(records.encode(record)) == record
    assert records.decode_lease(records.encode(LeaseBeat("a", "c", "i"))) == LeaseBeat(
        "a", "c", "i"
    )


def watch(*log: ControlRecord) -> LeaseWatch:
    found = LeaseWatch()
    found.follow(table(*log), 0)
    found.caught_up(0)
    return found


CLAIMED = hold("c1", "a", "made", 0, 1)


def test_a_member_that_never_was_has_no_lease_to_wait_for() -> None:
    assert not watch(CREATED).is_live("a", 0)


def test_a_claim_is_given_a_lease_before_its_first_beat() -> None:
    found = watch(CREATED, CLAIMED)

    assert found.is_live("a", 1_999)
    assert not found.is_live("a", 2_000)


def test_a_beat_renews_only_the_claim_it_names() -> None:
    found = watch(CREATED, CLAIMED)
    found.beat(LeaseBeat("a", "c0", "i"), 1_000)
    assert not found.is_live("a", 2_000)

    found.beat(LeaseBeat("a", "c1", "i"), 1_000)

    assert found.is_live("a", 2_999)
    assert not found.is_live("a", 3_000)


def test_a_lease_that_was_resigned_is_over() -> None:
    found = watch(CREATED, CLAIMED)
    found.beat(LeaseBeat("a", "c1", "i", resigned=True), 10)

    assert not found.is_live("a", 11)


def test_before_the_lease_topic_was_read_to_its_end_silence_means_nothing() -> None:
    found = LeaseWatch()
    found.follow(table(CREATED, CLAIMED), 0)

    assert found.is_live("a", 1_000_000)


def test_nobody_beats_for_a_claim_made_by_proxy() -> None:
    assert not watch(CREATED, HoldingRecord("c1", 0, "a", "made", (0,), 1, proxy=True)).is_live(
        "a", 0
    )


def test_a_dead_member_is_fenced_for_what_it_must_give_up() -> None:
    found = watch(CREATED, CLAIMED, ConfigRecord("x", 2, GroupConfig(4, members=("b",))))

    assert found.overdue("b", 0) is None
    assert found.overdue("b", 2_000) == "a"
    assert found.overdue("c", 2_000) is None


def test_a_live_member_is_fenced_when_it_had_its_time() -> None:
    found = watch(CREATED, CLAIMED, ConfigRecord("x", 2, GroupConfig(4, members=("b",))))
    found.overdue("b", 0)
    found.beat(LeaseBeat("a", "c1", "i"), 10_000)

    assert found.overdue("b", 10_000) is None
    assert found.overdue("b", 10_001) == "a"
