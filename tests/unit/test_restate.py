"""Restatements: the log below can go, and a state built anew knows what it must."""

from __future__ import annotations

import pytest

from marq.core.fold.fold import fold
from marq.core.fold.restate import SIZES, needed_from, parting, parts, restatement
from marq.core.fold.state import State
from marq.core.markers import bits, codec
from marq.core.markers.marker import (
    Action,
    ClaimId,
    EndedRuns,
    Failed,
    Forget,
    Part,
    Progress,
    Restate,
    Restated,
    Tick,
)
from tests.properties.hold_log import (
    ORDERS,
    START_MS,
    MarkersLog,
    deadline,
    open_offsets,
)


def test_a_restatement_changes_nothing_and_lets_the_log_below_go() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7, 8], lease_ms=60_000, at=0)
    log.begun(claim, [8], lease_ms=60_000, at=10)
    state = log.folded()
    before = [*state.claims[claim].parts]
    at = log.append(restatement(state, older_than_ms=0), at=20)

    state = log.folded()

    assert state.claims[claim].parts == before
    assert needed_from(state) == at


def test_a_restatement_is_out_of_date_once_a_record_has_named_the_claim() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7, 8], lease_ms=60_000, at=0)
    said = restatement(log.folded(), older_than_ms=0)
    acked = log.acked(claim, [7], at=10)
    log.append(said, at=20)

    state = log.folded()

    assert open_offsets(state) == [8]
    assert needed_from(state) < acked


def test_a_restatement_is_out_of_date_once_a_twin_s_end_reached_the_claim() -> None:
    log = MarkersLog()
    log.claim(offsets=[7, 8], worker=1, lease_ms=60_000, at=0)
    twin = log.claim(offsets=[7], worker=2, lease_ms=60_000, at=1)
    said = restatement(log.folded(), older_than_ms=0)
    log.acked(twin, [7], at=10)
    log.append(said, at=20)

    assert open_offsets(log.folded()) == [8]


def test_a_restatement_is_out_of_date_once_the_claim_was_sent_again() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], lease_ms=1_000, at=0)
    first = len(log.records) - 1
    log.begun(claim, [7], lease_ms=60_000, at=10)
    said = restatement(log.folded(), older_than_ms=0)
    log.again(first, at=20)
    log.append(said, at=30)

    # Else a state built anew might begin with the claim sent again, and not know what was begun.
    for start in range(needed_from(log.folded()) + 1):
        assert deadline(fold(State(), log.records[start:]), claim) == 60_010


def test_a_restatement_made_before_a_begun_does_not_undo_it() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], lease_ms=1_000, at=0)
    said = restatement(log.folded(), older_than_ms=0)
    log.begun(claim, [7], lease_ms=60_000, at=10)
    log.append(said, at=20)

    assert deadline(log.folded(), claim) == 60_010


def test_of_two_restatements_on_their_way_the_one_that_knows_more_counts() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], lease_ms=1_000, at=0)
    first = restatement(log.folded(), older_than_ms=0)
    start = log.begun(claim, [7], lease_ms=60_000, at=10)
    second = restatement(log.folded(), older_than_ms=0)
    log.append(first, at=20)
    log.append(second, at=30)

    original = log.folded()
    rebuilt = fold(State(), log.records[start:])

    assert needed_from(original) == start + 2
    assert deadline(rebuilt, claim) == deadline(original, claim) == 60_010


def test_a_restatement_never_opens_what_has_ended_even_by_a_state_that_did_not_know() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7, 8], at=0)
    log.acked(claim, [7], at=10)
    ignorant = fold(State(), [record for record in log if record.offset != len(log.records) - 1])
    ignorant.next_offset = len(log.records)
    log.append(restatement(ignorant, older_than_ms=0), at=20)

    assert open_offsets(log.folded()) == [8]


def test_a_state_built_anew_knows_the_old_claims_and_what_had_ended() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7, 8], lease_ms=60_000, at=0)
    lost = log.claim(offsets=[9], worker=2, at=1)
    log.acked(claim, [7], at=10)
    log.acked(lost, [9], at=11)
    original = log.folded()
    start = log.append(Tick(), at=12)
    duplicate = log.again(start - 3, at=13)  # the claim of 9, late
    log.append(restatement(original, older_than_ms=0), at=14)

    rebuilt = fold(State(), log.records[start:])

    assert duplicate > start
    assert open_offsets(rebuilt) == [8]
    assert deadline(rebuilt, claim, 1) == 60_000


def test_an_empty_restatement_and_an_empty_progress_are_nothing() -> None:
    log = MarkersLog()
    log.claim(offsets=[7], at=0)
    before = log.folded()
    log.append(Progress(), at=0)
    log.append(Restate(3), at=0)

    after = log.folded()

    assert after.claims == before.claims


def test_the_last_that_is_said_of_a_topic_that_is_gone_lets_it_be_forgotten() -> None:
    log = MarkersLog()
    bills = ORDERS._replace(topic_id=b"b" * 16, queue="bills")
    log.acked(log.claim(offsets=[7], at=0), [7], at=1)
    log.acked(log.claim(offsets=[3], source=bills, at=0), [3], at=1)

    restated, last = parting(restatement(log.folded()), gone={ORDERS.topic_id})
    log.append(restated, at=2)
    log.append(last, at=2)

    assert isinstance(last, Forget)
    assert list(log.folded().claimed) == [bills[:4]]
    assert [ended.source for ended in restatement(log.folded()).ended] == [bills]


def test_a_source_of_which_something_is_open_is_not_forgotten() -> None:
    log = MarkersLog()
    log.acked(log.claim(offsets=[7], at=0), [7], at=1)
    _, last = parting(restatement(log.folded()), gone={ORDERS.topic_id})
    log.claim(offsets=[8], at=2)
    log.append(last, at=3)

    state = log.folded()

    assert open_offsets(state) == [8]
    assert list(state.claimed) == [ORDERS[:4]]


def test_a_state_built_anew_learns_from_the_last_words_what_had_ended() -> None:
    log = MarkersLog()
    claimed_at = len(log.records)
    log.acked(log.claim(offsets=[7], at=0), [7], at=1)
    _, last = parting(restatement(log.folded()), gone={ORDERS.topic_id})
    start = log.again(claimed_at, at=2)
    log.append(last, at=3)

    rebuilt = fold(State(), log.records[start:])

    assert open_offsets(rebuilt) == []
    assert not rebuilt.claimed


def waiting(number: int, sequence: int = 1) -> Restated:
    """A claim of so many messages, each with retries of its own behind it."""
    reason = "x" * 300
    some = [
        Part(
            bits.span(index, 1),
            START_MS + index,
            attempt=2,
            action=Action.REDELIVER,
            reason=reason,
            failed=(Failed(1, START_MS, reason), Failed(2, START_MS + 1, reason)),
        )
        for index in range(number)
    ]
    return Restated(ClaimId(1, sequence), ORDERS, ((0, number),), tuple(some))


@pytest.mark.parametrize(("most_bytes", "spare"), SIZES)
def test_a_large_restatement_is_cut_into_records_that_say_the_same(
    most_bytes: int, spare: bool
) -> None:
    claims = tuple(waiting(10, sequence) for sequence in range(100))
    runs = tuple((10 * number, 5) for number in range(200_000))
    ended = (EndedRuns(ORDERS, runs), EndedRuns(ORDERS._replace(partition=1), ()))

    found = parts(Restate(7, claims, ended), most_bytes, spare)

    assert all(len(codec.encode(each)) <= most_bytes + 100 for each in found)
    restates = [each for each in found if isinstance(each, Restate)]
    assert {each.as_of for each in restates} == {7}
    assert tuple(claim for each in restates for claim in each.claims) == claims
    said = [each for some in restates for each in some.ended]
    assert tuple(run for each in said for run in each.runs if each.source == ORDERS) == runs
    assert said[-1] == ended[1]


def test_a_claim_that_no_broker_takes_goes_without_its_reasons() -> None:
    claim = waiting(4_000)

    (whole,) = parts(Restate(7, (claim,)), 400_000, spare=False)
    (less,) = parts(Restate(7, (claim,)), 100_000, spare=True)

    assert whole == Restate(7, (claim,))
    assert len(codec.encode(whole)) > 3_000_000
    assert len(codec.encode(less)) < 120_000
    assert isinstance(less, Restate)
    kept = [(p.indexes, p.deadline_ms, p.attempt, p.action) for p in less.claims[0].parts]
    assert kept == [(p.indexes, p.deadline_ms, p.attempt, p.action) for p in claim.parts]


def test_what_is_forgotten_is_said_in_records_of_the_same_size() -> None:
    runs = tuple((10 * number, 5) for number in range(50_000))

    found = parts(Forget((EndedRuns(ORDERS, runs),)), 20_000, spare=True)
    log = MarkersLog()
    for each in found:
        log.append(each, at=0)

    assert all(len(codec.encode(each)) <= 20_000 for each in found)
    assert not log.folded().claimed


def test_nothing_to_restate_is_one_record_all_the_same() -> None:
    assert parts(Restate(7), 400_000, spare=False) == [Restate(7)]
