"""Leases, rule by rule: what begun, beats and holds move, and what comes too late."""

from __future__ import annotations

from marq.core.markers.marker import Action
from tests.properties.hold_log import (
    MarkersLog,
    deadline,
    open_offsets,
    overdue,
)


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


def test_what_waits_for_its_retry_in_the_worker_is_buried_at_once() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], lease_ms=9_000, at=0)
    log.hold(claim, [7], Action.REDELIVER, after_ms=5_000, at=100)
    log.hold(claim, [7], Action.BURY, reason="it expired", at=200)
    log.tick(at=300)

    (event,) = overdue(log.folded())

    assert (event.action, event.reason) == (Action.BURY, "it expired")


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
