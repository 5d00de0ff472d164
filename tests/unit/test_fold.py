"""The fold, rule by rule: what opens, what moves, what ends, and what comes too late."""

from __future__ import annotations

from marq.core import codec
from marq.core.fold import Record, fold
from marq.core.marker import Action, Parked, Progress, Restate, Tick
from marq.core.restate import needed_from, restatement
from marq.core.state import State
from tests.properties.hold_log import (
    ORDERS,
    START_MS,
    MarkersLog,
    blobs,
    deadline,
    open_offsets,
    overdue,
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


def test_begun_starts_the_lease_from_its_own_time() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7, 8], lease_ms=1_000, at=0)
    log.begun(claim, [8], lease_ms=30_000, at=400)

    state = log.folded()

    assert deadline(state, claim, 0) == 1_000
    assert deadline(state, claim, 1) == 30_400


def test_a_begun_sent_twice_does_not_start_the_lease_again() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], at=0)
    begun = log.begun(claim, [7], lease_ms=1_000, at=100)
    log.again(begun, at=900)

    assert deadline(log.folded(), claim) == 1_100


def test_a_begun_at_the_deadline_is_void_because_someone_else_may_have_it() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], lease_ms=1_000, at=0)
    log.begun(claim, [7], lease_ms=30_000, at=1_000)

    (event,) = overdue(log.folded())

    assert (event.offset, event.attempt) == (7, 0)


def test_a_begun_just_before_the_deadline_counts() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], lease_ms=1_000, at=0)
    log.begun(claim, [7], lease_ms=30_000, at=999)

    assert deadline(log.folded(), claim) == 30_999


def test_a_begun_that_lands_after_the_hold_that_followed_it_does_not_take_it_back() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], lease_ms=9_000, at=0)
    begun = log.begun(claim, [7], lease_ms=9_000, at=10)
    log.hold(claim, [7], Action.REDELIVER, after_ms=500, at=20)
    log.again(begun, at=30)
    log.tick(at=520)

    (event,) = overdue(log.folded())

    assert (event.action, event.attempt) == (Action.REDELIVER, 1)


def test_a_retry_that_is_begun_again_in_the_same_claim_is_leased_anew() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], at=0)
    log.begun(claim, [7], attempt=1, lease_ms=1_000, at=10)
    log.hold(claim, [7], Action.REDELIVER, after_ms=800, reason="busy", at=20)
    log.begun(claim, [7], attempt=2, lease_ms=5_000, at=600)
    log.ticks_to(5_600)

    (event,) = overdue(log.folded())

    assert (event.action, event.attempt, event.reason) == (Action.EXPIRE, 2, "")


def test_a_beat_renews_what_is_prefetched_by_the_pump_lease() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], lease_ms=1_000, at=0)
    log.beat(claim, at=600)

    assert deadline(log.folded(), claim) == 1_600


def test_a_beat_renews_a_running_handler_s_message_by_its_own_lease() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7, 8], lease_ms=1_000, at=0)
    log.begun(claim, [7], lease_ms=30_000, kept_alive=True, at=100)
    log.beat(claim, at=500)

    state = log.folded()

    assert (deadline(state, claim, 0), deadline(state, claim, 1)) == (30_500, 1_500)


def test_a_beat_never_renews_a_pull_delivery_because_nobody_knows_whether_it_is_worked_on() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], at=0)
    log.begun(claim, [7], lease_ms=1_000, kept_alive=False, at=100)
    log.beat(claim, at=500)

    assert deadline(log.folded(), claim) == 1_100


def test_a_beat_never_shortens_a_lease() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], lease_ms=1_000, at=0)
    log.hold(claim, [7], Action.EXTEND, after_ms=60_000, at=100)
    log.beat(claim, at=200)

    assert deadline(log.folded(), claim) == 60_100


def test_a_beat_for_the_rest_of_a_claim_does_not_revive_what_has_lapsed() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7, 8], lease_ms=1_000, at=0)
    log.begun(claim, [8], lease_ms=5_000, kept_alive=True, at=10)
    log.tick(at=1_000)
    log.beat(claim, at=1_001)

    assert [event.offset for event in overdue(log.folded())] == [7]


def test_a_beat_counts_by_the_end_of_the_worker_s_say_not_by_the_deadline() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], at=0)
    log.begun(claim, [7], lease_ms=1_000, ahead_ms=400, kept_alive=True, at=0)
    log.beat(claim, at=600)

    assert deadline(log.folded(), claim) == 1_000


def test_a_keep_alive_after_the_end_revives_nothing() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], at=0)
    log.acked(claim, [7], at=10)
    log.beat(claim, at=20)

    assert not log.folded().claims


def test_an_ack_after_expiry_still_ends_it_because_the_tracker_s_own_end_is_always_late() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], lease_ms=1_000, at=0)
    log.tick(at=1_500)
    log.acked(claim, [7], at=1_600)

    assert open_offsets(log.folded()) == []


def test_a_straggler_s_holds_after_expiry_are_void() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7, 8, 9], lease_ms=1_000, at=0)
    log.hold(claim, [7], Action.EXTEND, after_ms=9_000, at=1_000)
    log.hold(claim, [8], Action.REDELIVER, after_ms=9_000, at=1_001)
    log.hold(claim, [9], Action.BURY, at=1_002)

    events = overdue(log.folded())

    assert [(e.offset, e.action) for e in events] == [(n, Action.EXPIRE) for n in (7, 8, 9)]


def test_extend_moves_the_deadline_and_beats_go_on() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], at=0)
    log.begun(claim, [7], lease_ms=1_000, kept_alive=True, at=0)
    log.hold(claim, [7], Action.EXTEND, after_ms=1_500, at=100)
    log.beat(claim, at=1_200)

    assert deadline(log.folded(), claim) == 2_200


def test_extend_never_shortens_a_lease() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], lease_ms=9_000, at=0)
    log.hold(claim, [7], Action.EXTEND, after_ms=10, at=1)

    assert deadline(log.folded(), claim) == 9_000


def test_a_hold_sent_twice_counts_from_the_first() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], lease_ms=9_000, at=0)
    retry = log.hold(claim, [7], Action.REDELIVER, after_ms=500, at=100)
    log.again(retry, at=400)

    assert deadline(log.folded(), claim) == 600


def test_a_worker_that_gave_a_message_away_cannot_hold_it_again() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], lease_ms=9_000, at=0)
    log.hold(claim, [7], Action.BURY, after_ms=500, reason="bad", at=100)
    log.hold(claim, [7], Action.REDELIVER, after_ms=5_000, at=200)
    log.hold(claim, [7], Action.EXTEND, after_ms=5_000, at=200)
    log.beat(claim, at=300)
    log.tick(at=600)

    (event,) = overdue(log.folded())

    assert (event.action, event.reason) == (Action.BURY, "bad")


def test_messages_rejected_in_the_same_millisecond_keep_their_own_reasons() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7, 8], at=0)
    log.hold(claim, [7], Action.BURY, reason="no customer", at=10)
    log.hold(claim, [8], Action.BURY, reason="no price", at=10)

    events = overdue(log.folded())

    assert sorted((e.offset, e.reason) for e in events) == [(7, "no customer"), (8, "no price")]


def test_the_tracker_s_hold_counts_after_the_deadline_because_it_answers_what_is_overdue() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], lease_ms=1_000, at=0)
    log.hold(claim, [7], Action.BURY, after_ms=1_000, reason="bad", by_tracker=True, at=1_500)

    state = log.folded()

    assert deadline(state, claim) == 2_500
    assert state.claims[claim].parts[0].action is Action.BURY


def test_extend_by_the_tracker_keeps_the_action_and_its_reason() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], lease_ms=1_000, at=0)
    log.hold(claim, [7], Action.BURY, reason="bad", at=10)
    log.hold(claim, [7], Action.EXTEND, after_ms=1_000, by_tracker=True, at=20)
    log.tick(at=1_020)

    (event,) = overdue(log.folded())

    assert (event.action, event.reason) == (Action.BURY, "bad")


def test_extend_by_the_tracker_gives_a_living_worker_its_lease_back() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], lease_ms=1_000, at=0)
    log.tick(at=1_500)
    log.hold(claim, [7], Action.EXTEND, after_ms=1_000, by_tracker=True, at=1_600)
    log.beat(claim, at=2_000)

    assert deadline(log.folded(), claim) == 3_000


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

    start = needed_from(log.folded())

    # Else a state built anew would begin with the claim sent again, and not know what was begun.
    assert deadline(fold(State(), log.records[start:]), claim) == 60_010


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
