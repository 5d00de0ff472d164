"""What is emitted at the end of a batch, in which order, how often, and by which clock."""

from __future__ import annotations

from marq.core.fate import act
from marq.core.fold.fold import GRACE_MS, JUMP_MS, fold
from marq.core.fold.overdue import Due, emit, next_lapse_ms
from marq.core.fold.state import State
from marq.core.markers.marker import Action
from tests.properties.hold_log import ORDERS, START_MS, MarkersLog, deadline, due, overdue


def test_a_message_that_was_only_prefetched_keeps_its_attempt() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7, 8], lease_ms=1_000, at=0)
    log.begun(claim, [7], lease_ms=900, at=10)
    log.tick(at=1_000)

    events = overdue(log.folded())

    assert [(e.offset, e.attempt) for e in events] == [(7, 1), (8, 0)]


def test_nothing_is_emitted_a_millisecond_early_and_all_at_the_deadline() -> None:
    log = MarkersLog()
    log.claim(offsets=[7], lease_ms=1_000, at=0)
    log.tick(at=999)
    state = log.folded()

    early = emit(state)
    log.tick(at=1_000)
    fold(state, log)

    assert early == []
    assert [event.offset for event in overdue(state)] == [7]


def test_an_event_may_come_ahead_of_its_deadline_by_as_much_as_begun_says() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], at=0)
    log.begun(claim, [7], lease_ms=1_000, ahead_ms=300, at=0)
    log.tick(at=700)

    (event,) = overdue(log.folded())

    assert (event.deadline_ms, event.lapse_ms) == (START_MS + 1_000, START_MS + 700)


def test_what_ended_further_down_the_same_batch_is_not_emitted() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], lease_ms=1_000, at=0)
    log.tick(at=1_500)
    log.acked(claim, [7], at=1_600)

    assert emit(log.folded()) == []


def test_what_was_emitted_is_marked_until_its_end_is_read() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], lease_ms=1_000, at=0)
    log.tick(at=1_000)
    state = log.folded()

    first, second = emit(state), emit(state)
    log.acked(claim, [7], at=1_100)
    fold(state, log)

    assert (len(first), second, emit(state)) == (1, [], [])


def test_a_hold_of_the_tracker_clears_the_mark() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], lease_ms=1_000, at=0)
    log.tick(at=1_000)
    state = log.folded()
    emit(state)

    log.hold(claim, [7], Action.EXTEND, after_ms=500, by_tracker=True, at=1_100)
    log.tick(at=1_600)

    assert [event.offset for event in overdue(fold(state, log))] == [7]


def test_what_is_put_off_is_emitted_once_in_that_time_however_far_ahead_it_was() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], lease_ms=1_000, at=0)
    log.hold(claim, [7], Action.REDELIVER, at=500, after_ms=3_600_000, ahead_ms=3_600_000)
    parked = log.park(at=500, delay_ms=30_000, ahead_ms=30_000)
    state = log.folded()
    times: list[int] = []

    for at in range(1_000, 130_000, 500):
        log.tick(at=at)
        if events := emit(fold(state, log)):
            times.append(at)
            log.append(act.put_off(events, 60_000), at=at)

    assert times == [1_000, 61_000, 121_000]
    assert deadline(state, claim) == 3_600_500
    assert parked in [entry.ref for entry in state.parked]


def test_a_hold_of_the_tracker_under_any_claim_clears_the_mark() -> None:
    log = MarkersLog()
    one = log.claim(offsets=[7], lease_ms=900, worker=1, at=0)
    log.claim(offsets=[7], lease_ms=1_000, worker=2, at=0)
    log.tick(at=1_000)
    state = log.folded()
    emit(state)

    log.hold(one, [7], Action.BURY, ahead_ms=900, by_tracker=True, at=1_100)

    assert [event.offset for event in overdue(fold(state, log))] == [7]


def test_a_late_hold_of_the_worker_does_not_clear_the_mark() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], lease_ms=1_000, at=0)
    log.tick(at=1_000)
    state = log.folded()
    emit(state)

    log.hold(claim, [7], Action.REDELIVER, at=1_100)
    log.tick(at=1_200)

    assert emit(fold(state, log)) == []


def test_a_new_claim_clears_the_mark_and_speaks_because_it_lapses_last() -> None:
    log = MarkersLog()
    first = log.claim(offsets=[7], lease_ms=1_000, worker=1, at=0)
    log.tick(at=1_000)
    state = log.folded()
    emit(state)

    second = log.claim(offsets=[7], lease_ms=1_000, worker=2, at=1_100)
    log.tick(at=2_000)
    early = emit(fold(state, log))
    log.tick(at=2_100)
    (event,) = overdue(fold(state, log))

    assert early == []
    assert event.names == ((second, 0), (first, 0))


def test_a_new_claim_clears_the_mark_though_the_old_one_goes_on_speaking() -> None:
    log = MarkersLog()
    log.claim(offsets=[7], lease_ms=1_000, worker=5, at=0)
    log.tick(at=1_000)
    state = log.folded()
    emit(state)

    log.claim(offsets=[7], lease_ms=0, worker=1, at=1_000)

    assert [event.names[0][0].worker for event in overdue(fold(state, log))] == [5]


def test_a_message_is_overdue_when_its_last_open_claim_is() -> None:
    log = MarkersLog()
    log.claim(offsets=[7], lease_ms=3_000, worker=1, at=0)
    log.claim(offsets=[7], lease_ms=1_000, worker=2, at=0)
    log.tick(at=1_000)
    state = log.folded()

    early = emit(state)
    log.ticks_to(3_000)

    assert early == []
    assert len(overdue(fold(state, log))) == 1


def test_of_claims_that_lapse_together_exactly_one_speaks() -> None:
    log = MarkersLog()
    log.claim(offsets=[7, 8], lease_ms=1_000, worker=1, at=0)
    log.claim(offsets=[8, 9], lease_ms=1_000, worker=2, at=0)
    log.tick(at=1_000)

    events = overdue(log.folded())

    assert sorted(event.offset for event in events) == [7, 8, 9]


def test_the_oldest_come_first_whatever_they_are() -> None:
    log = MarkersLog()
    ref = log.park(at=0, delay_ms=700)
    log.claim(offsets=[1], lease_ms=900, worker=1, at=0)
    log.claim(offsets=[2], lease_ms=500, worker=2, at=0)
    log.tick(at=1_000)

    lapses = [(event.lapse_ms - START_MS, type(event) is Due) for event in emit(log.folded())]

    assert lapses == [(500, False), (700, True), (900, False)]
    assert ref.offset == len(log.records) - 4


def test_messages_that_lapse_together_come_in_the_order_of_their_offsets() -> None:
    log = MarkersLog()
    log.claim(offsets=[20, 21], lease_ms=1_000, worker=1, at=0)
    log.claim(offsets=[10, 12], lease_ms=1_000, worker=2, at=0)
    log.tick(at=1_000)

    assert [event.offset for event in overdue(log.folded())] == [10, 12, 20, 21]


def test_a_batch_emits_no_more_than_its_limit_and_the_next_ones_the_rest() -> None:
    log = MarkersLog()
    log.claim(offsets=range(5), lease_ms=1_000, at=0)
    for _ in range(3):
        log.park(at=0, delay_ms=1_000)
    log.tick(at=1_000)
    state = log.folded()

    batches = [emit(state, limit=3) for _ in range(4)]

    assert [len(batch) for batch in batches] == [3, 3, 2, 0]
    assert len({str(event) for batch in batches for event in batch}) == 8


def test_after_a_jump_of_the_clock_acks_and_beats_have_five_seconds_to_arrive() -> None:
    log = MarkersLog()
    acked = log.claim(offsets=[7], lease_ms=3_000, worker=1, at=0)
    beaten = log.claim(offsets=[8], lease_ms=3_000, worker=2, at=0)
    log.claim(offsets=[9], lease_ms=3_000, worker=3, at=0)
    away = 600_000
    log.tick(at=away)
    state = log.folded()
    at_once = emit(state)
    log.ticks_to(away + GRACE_MS - 3)
    log.acked(acked, [7], at=away + GRACE_MS - 2)
    log.beat(beaten, at=away + GRACE_MS - 1)
    log.tick(at=away + GRACE_MS)

    events = overdue(fold(state, log))

    assert at_once == []
    assert [event.offset for event in events] == [9]
    assert deadline(state, beaten) == away + GRACE_MS - 1 + 3_000


def test_a_second_jump_within_the_grace_starts_it_again() -> None:
    log = MarkersLog()
    log.claim(offsets=[7], lease_ms=1_000, at=0)
    log.tick(at=10_000)
    log.tick(at=10_000 + JUMP_MS + 1)
    log.ticks_to(10_000 + GRACE_MS + 100)
    state = log.folded()

    early = emit(state)
    log.ticks_to(10_000 + JUMP_MS + 1 + GRACE_MS)

    assert early == []
    assert len(overdue(fold(state, log))) == 1


def test_ticks_two_seconds_apart_are_no_jump() -> None:
    log = MarkersLog()
    log.claim(offsets=[7], lease_ms=JUMP_MS, at=0)
    log.tick(at=JUMP_MS)

    assert len(overdue(log.folded())) == 1


def test_a_state_that_has_just_begun_gives_no_lease_up_because_it_may_be_built_anew() -> None:
    log = MarkersLog()
    log.claim(offsets=[7], lease_ms=100, at=0)
    log.ticks_to(GRACE_MS - 1)
    state = fold(State(), log.records[6:])

    early = emit(state)
    log.tick(at=GRACE_MS)

    assert early == []
    assert len(overdue(fold(state, log))) == 1


def test_delays_are_not_affected_by_a_jump() -> None:
    log = MarkersLog()
    ref = log.park(at=0, delay_ms=60_000)
    log.tick(at=60_000)

    assert [event.ref for event in due(log.folded())] == [ref]


def test_the_next_lapse_is_known_and_nothing_is_left_when_all_is_emitted() -> None:
    log = MarkersLog()
    log.claim(offsets=[7], lease_ms=1_000, at=0)
    log.park(at=0, delay_ms=1_500)
    state = log.folded()

    first = next_lapse_ms(state)
    log.ticks_to(1_500)
    fold(state, log)
    emit(state)
    emit(state)

    assert first == START_MS + 1_000
    assert next_lapse_ms(state) is None


def test_an_event_says_all_that_a_copy_needs() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], at=0)
    log.begun(claim, [7], lease_ms=1_000, attempt=4, kept_alive=True, at=0)
    log.hold(claim, [7], Action.REDELIVER, after_ms=500, ahead_ms=200, reason="busy", at=100)
    log.tick(at=400)

    (event,) = overdue(log.folded())

    assert (event.source, event.offset, event.names) == (ORDERS, 7, ((claim, 0),))
    assert (event.action, event.attempt, event.reason) == (Action.REDELIVER, 4, "busy")
    assert (event.deadline_ms - START_MS, event.ahead_ms, event.kept_alive) == (600, 200, True)


def test_an_attempt_begun_under_any_claim_is_an_attempt() -> None:
    log = MarkersLog()
    first = log.claim(offsets=[7], lease_ms=1_000, at=0)
    log.begun(first, [7], lease_ms=500, attempt=2, at=10)
    log.claim(offsets=[7], lease_ms=1_000, at=20)
    log.tick(at=1_100)

    (event,) = overdue(log.folded())

    assert event.attempt == 2


def test_a_reject_under_any_claim_stands_though_another_lapses_last() -> None:
    log = MarkersLog()
    first = log.claim(offsets=[7], lease_ms=1_000, at=0)
    log.claim(offsets=[7], lease_ms=1_000, at=20)
    log.hold(first, [7], Action.BURY, reason="broken", at=30)
    log.tick(at=1_100)

    (event,) = overdue(log.folded())

    assert (event.action, event.reason) == (Action.BURY, "broken")
