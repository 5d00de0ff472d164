"""The fold, rule by rule: what opens, what ends, and by which clock."""

from __future__ import annotations

from marq.core.fold.fold import Record, fold
from marq.core.fold.state import State
from marq.core.markers import codec
from marq.core.markers.marker import Action, Parked
from tests.properties.hold_log import (
    ORDERS,
    START_MS,
    MarkersLog,
    blobs,
    deadline,
    open_offsets,
)


def test_a_claim_opens_its_messages_for_the_pump_lease() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7, 8], lease_ms=1_000, at=0)

    state = log.folded()

    assert open_offsets(state) == [7, 8]
    assert deadline(state, claim) == 1_000


def test_an_ack_ends_one_message_and_none_beside_it() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7, 8, 9], at=0)
    log.acked(claim, [8], at=1)

    assert open_offsets(log.folded()) == [7, 9]


def test_the_state_forgets_a_claim_whose_messages_have_all_ended() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7, 8], at=0)
    log.acked(claim, [8, 7], at=1)

    state = log.folded()

    assert not state.claims
    assert list(state.claimed[ORDERS[:4]].runs) == [(7, 9)]


def test_an_end_for_an_unknown_claim_is_nothing_because_what_it_names_may_be_trimmed() -> None:
    log, elsewhere = MarkersLog(), MarkersLog()
    elsewhere.claim(offsets=[0], worker=9)
    unknown = elsewhere.claim(offsets=[7], worker=9)
    claim = log.claim(offsets=[7], at=0)
    ended = elsewhere.acked(unknown, [7], at=1)
    log.append(elsewhere.records[ended].body, at=1)

    assert open_offsets(log.folded()) == [7]
    assert claim in log.folded().claims


def test_a_claim_sent_twice_is_one_claim_whose_time_stands() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], lease_ms=1_000, at=0)
    log.again(len(log.records) - 1, at=500)

    state = log.folded()

    assert deadline(state, claim) == 1_000
    assert state.claims[claim].twins == ()


def test_a_claim_that_lands_again_after_its_messages_ended_opens_nothing() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7, 8], at=0)
    log.acked(claim, [7, 8], at=1)
    log.again(len(log.records) - 2, at=2)

    assert open_offsets(log.folded()) == []


def test_another_worker_s_claim_opens_only_what_has_not_ended() -> None:
    log = MarkersLog()
    first = log.claim(offsets=[7, 8], worker=1, at=0)
    log.acked(first, [7], at=1)
    second = log.claim(offsets=[7, 8, 9], worker=2, at=2)

    state = log.folded()

    assert open_offsets(state) == [8, 9]
    assert state.claims[second].open == log.indexes(second, [8, 9])


def test_what_lies_between_position_and_runs_is_nothing_to_deliver_and_never_opens() -> None:
    log = MarkersLog()
    log.claim(offsets=[10], start=5, at=0)
    log.claim(offsets=[7], worker=2, at=1)

    assert open_offsets(log.folded()) == [10]


def test_a_record_read_twice_changes_nothing() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], at=0)
    log.begun(claim, [7], at=10)

    once, twice = log.folded(), log.folded()
    fold(twice, log.records[-3:])

    assert blobs(twice) == blobs(once)


def test_an_end_under_any_claim_ends_the_message_under_all() -> None:
    log = MarkersLog()
    first = log.claim(offsets=[7, 8], worker=1, at=0)
    log.claim(offsets=[8, 9], worker=2, at=1)
    third = log.claim(offsets=[8], worker=3, at=2)
    log.acked(first, [8], at=3)

    state = log.folded()

    assert open_offsets(state) == [7, 9]
    assert third not in state.claims


def test_a_claim_forgets_twins_that_have_ended_because_state_is_what_is_open() -> None:
    log = MarkersLog()
    long = log.claim(offsets=range(50), worker=1, at=0)
    for offset in range(49):
        log.acked(log.claim([offset], worker=2, at=1), [offset], at=2)

    assert log.folded().claims[long].twins == ()


def test_a_new_seek_voids_what_is_open_and_claims_anew_what_had_ended() -> None:
    log = MarkersLog()
    old = log.claim(offsets=[7, 8], at=0)
    log.acked(old, [7], at=1)
    sought = ORDERS._replace(epoch=1)
    log.claim(offsets=[7], source=sought, worker=2, at=2)

    state = log.folded()

    assert open_offsets(state, ORDERS) == []
    assert open_offsets(state, sought) == [7]


def test_a_claim_from_before_the_seek_that_lands_late_opens_nothing() -> None:
    log = MarkersLog()
    log.claim(offsets=[7], source=ORDERS._replace(epoch=1), at=0)
    log.claim(offsets=[8], source=ORDERS, worker=2, at=1)

    assert open_offsets(log.folded(), ORDERS) == []


def test_a_seek_of_one_subscription_leaves_the_others_alone() -> None:
    log = MarkersLog()
    audit = ORDERS._replace(subscription="audit")
    log.claim(offsets=[7], source=audit, at=0)
    log.claim(offsets=[7], source=ORDERS._replace(epoch=1), worker=2, at=1)

    assert open_offsets(log.folded(), audit) == [7]


def test_time_never_runs_back_whatever_the_leader_s_clock_does() -> None:
    log = MarkersLog()
    log.tick(at=900)
    claim = log.claim(offsets=[7], lease_ms=1_000, at=100)

    state = log.folded()

    assert deadline(state, claim) == 1_900
    assert state.clock_ms == START_MS + 900


def test_bytes_that_are_no_marker_are_counted_and_their_time_counts() -> None:
    log = MarkersLog()
    log.append(None, at=700)

    state = log.folded()

    assert (state.skipped, state.clock_ms) == (1, START_MS + 700)


def test_the_fold_of_decoded_records_is_the_fold_of_the_markers() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7, 9], at=0)
    log.begun(claim, [9], at=5, attempt=3)
    log.hold(claim, [7], Action.BURY, reason="bad", at=6)
    decoded = [
        Record(offset, at_ms, codec.decode(codec.encode(body)))
        for offset, at_ms, body in log
        if body is not None and not isinstance(body, Parked)
    ]

    assert blobs(fold(State(), decoded)) == blobs(log.folded())
