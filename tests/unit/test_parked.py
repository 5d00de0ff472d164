"""Parked messages: found by one reference, released at their time, cancelled in time or not."""

from __future__ import annotations

from marq.core.fold.fold import fold
from marq.core.fold.overdue import emit
from marq.core.fold.parked import CHUNK_MS, Chunk, Chunks
from marq.core.fold.restate import needed_from
from marq.core.fold.snapshot import dump
from marq.core.fold.state import State
from marq.core.markers.marker import Action, Parked, ParkedRef
from tests.properties.hold_log import START_MS, MarkersLog, due


def test_a_delay_counts_from_the_append_time_of_the_record() -> None:
    log = MarkersLog()
    ref = log.park(at=100, delay_ms=500)
    log.tick(at=599)
    state = log.folded()

    early = emit(state)
    log.tick(at=600)

    assert early == []
    assert [event.ref for event in due(fold(state, log))] == [ref]


def test_a_due_time_the_user_gave_is_taken_as_it_is() -> None:
    log = MarkersLog()
    offset = log.append(Parked(due_ms=START_MS + 700), at=0)
    log.tick(at=700)

    (event,) = due(log.folded())

    assert event.ref == ParkedRef(START_MS + 700, offset)


def test_a_parked_message_is_emitted_ahead_so_that_it_can_be_handed_out_to_the_millisecond() -> (
    None
):
    log = MarkersLog()
    log.park(at=0, delay_ms=5_000, ahead_ms=3_000)
    log.tick(at=2_000)

    (event,) = due(log.folded())

    assert event.lapse_ms == START_MS + 2_000


def test_a_cancel_in_time_ends_the_message() -> None:
    log = MarkersLog()
    ref = log.park(at=0, delay_ms=5_000, ahead_ms=3_000)
    log.cancel(ref, at=1_999)
    log.ticks_to(9_000)

    assert due(log.folded()) == []


def test_a_cancel_that_came_too_late_must_not_lose_the_message() -> None:
    log = MarkersLog()
    ref = log.park(at=0, delay_ms=5_000, ahead_ms=3_000)
    log.cancel(ref, at=2_000)

    assert [event.ref for event in due(log.folded())] == [ref]


def test_a_cancel_sent_twice_is_one_cancel() -> None:
    log = MarkersLog()
    ref = log.park(at=0, delay_ms=500)
    again = log.cancel(ref, at=100)
    log.again(again, at=200)
    log.tick(at=900)

    assert len(log.folded().parked) == 0


def test_an_end_counts_however_late_it_comes() -> None:
    log = MarkersLog()
    ref = log.park(at=0, delay_ms=500)
    log.tick(at=1_000)
    log.released(ref, at=1_500)

    assert emit(log.folded()) == []


def test_a_half_message_that_was_checked_still_ends_by_the_reference_its_sender_knows() -> None:
    log = MarkersLog()
    ref = log.park(at=0, delay_ms=500, action=Action.CHECK)
    log.hold_parked(ref, Action.CHECK, after_ms=30_000, by_tracker=True, at=600)
    log.released(ref, at=700)

    assert len(log.folded().parked) == 0


def test_a_cancel_finds_its_message_though_the_leader_s_clock_was_behind() -> None:
    log = MarkersLog()
    log.tick(at=105)
    ref = log.park(at=100, delay_ms=500)  # what the sender's report says
    log.cancel(ref, at=200)

    assert len(log.folded().parked) == 0


def test_a_message_appended_with_a_clock_behind_is_not_early_by_the_log_s_clock() -> None:
    log = MarkersLog()
    log.tick(at=900)
    log.park(at=100, delay_ms=500)
    log.tick(at=1_399)

    assert due(log.folded()) == []


def test_an_end_is_found_in_a_state_built_anew_though_the_clock_was_behind() -> None:
    log = MarkersLog()
    log.tick(at=105)
    ref = log.park(at=100, delay_ms=500)
    log.tick(at=700)
    (event,) = due(log.folded())
    log.released(event.ref, at=800)

    rebuilt = fold(State(), log.records[ref.offset :])

    assert len(rebuilt.parked) == 0


def test_each_check_of_a_half_message_is_counted() -> None:
    log = MarkersLog()
    ref = log.park(at=0, delay_ms=500, action=Action.CHECK)
    for at in (600, 700, 800):
        log.hold_parked(ref, Action.CHECK, after_ms=50, by_tracker=True, at=at)
    log.tick(at=900)

    (event,) = due(log.folded())

    assert (event.action, event.tries) == (Action.CHECK, 3)


def test_extend_leaves_a_parked_message_what_it_is() -> None:
    log = MarkersLog()
    ref = log.park(at=0, delay_ms=500, action=Action.CHECK)
    log.hold_parked(ref, Action.BURY, reason="no answer", by_tracker=True, at=600)
    log.hold_parked(ref, Action.EXTEND, after_ms=1_000, by_tracker=True, at=700)
    log.ticks_to(1_699)
    state = log.folded()

    early = due(state)
    log.tick(at=1_700)
    (event,) = due(fold(state, log))

    assert early == []
    assert (event.action, event.reason, event.tries) == (Action.BURY, "no answer", 0)


def test_the_tracker_s_hold_clears_the_mark_of_a_parked_message() -> None:
    log = MarkersLog()
    ref = log.park(at=0, delay_ms=500)
    log.tick(at=500)
    state = log.folded()
    first, second = emit(state), emit(state)

    log.hold_parked(ref, Action.EXTEND, after_ms=1_000, by_tracker=True, at=600)
    log.tick(at=1_600)

    assert (len(first), len(second)) == (1, 0)
    assert len(emit(fold(state, log))) == 1


def test_a_worker_s_hold_of_what_is_due_already_is_void() -> None:
    log = MarkersLog()
    ref = log.park(at=0, delay_ms=500)
    log.hold_parked(ref, Action.RELEASE, after_ms=9_000, at=500)

    assert len(due(log.folded())) == 1


def test_a_reference_that_names_another_due_time_names_nothing() -> None:
    log = MarkersLog()
    ref = log.park(at=0, delay_ms=500)
    log.released(ParkedRef(ref.due_ms + 1, ref.offset), at=10)
    log.released(ParkedRef(ref.due_ms, ref.offset + 1), at=10)
    log.released(ParkedRef(ref.due_ms + 10 * CHUNK_MS, ref.offset), at=10)

    assert len(log.folded().parked) == 1


def test_messages_due_together_come_in_the_order_they_were_sent_across_chunks() -> None:
    log = MarkersLog()
    delays = [3 * CHUNK_MS, CHUNK_MS, 2 * CHUNK_MS, CHUNK_MS]
    refs = [log.park(at=0, delay_ms=delay) for delay in delays]
    log.tick(at=4 * CHUNK_MS)

    events = due(log.folded())

    assert [event.ref for event in events] == [refs[1], refs[3], refs[2], refs[0]]


def test_only_chunks_in_which_something_is_due_are_looked_at() -> None:
    class Counted(Chunks):
        loads = 0

        def __getitem__(self, bucket: int) -> Chunk:
            Counted.loads += 1
            return super().__getitem__(bucket)

    log = MarkersLog()
    for hours in range(50):
        log.park(at=0, delay_ms=3_600_000 * (hours + 1))
    state = log.folded()
    state.parked.chunks = Counted(state.parked.chunks)

    for at in range(100, 5_000, 100):
        log.tick(at=at)
        emit(fold(state, log))

    assert Counted.loads == 0


def test_an_empty_chunk_is_forgotten() -> None:
    log = MarkersLog()
    ref = log.park(at=0, delay_ms=500)
    log.cancel(ref, at=1)

    state = log.folded()

    assert not state.parked.index
    assert not state.parked.chunks


def month() -> tuple[MarkersLog, list[ParkedRef]]:
    """A message for each hour, a day after the other."""
    log = MarkersLog()
    hours = sorted(range(1, 24 * 30 + 1), key=lambda hour: (hour % 24, hour))
    return log, [log.park(at=0, delay_ms=3_600_000 * hour) for hour in hours]


def test_a_month_is_few_chunks_and_a_small_index() -> None:
    log, _ = month()

    state = log.folded()

    assert len(state.parked) == 24 * 30
    assert len(state.parked.chunks) < 170
    assert len(dump(state)) < 4_000


def test_messages_of_a_month_come_each_at_its_time_by_way_of_narrower_chunks() -> None:
    log, refs = month()
    state = log.folded()
    found: list[ParkedRef] = []

    for hour in range(1, 24 * 30 + 1):
        log.tick(at=3_600_000 * hour - 1)
        assert due(fold(state, log)) == []
        log.tick(at=3_600_000 * hour)
        found += [event.ref for event in due(fold(state, log))]
        log.released(found[-1], at=3_600_000 * hour)
        fold(state, log)

    assert found == sorted(refs)
    assert not state.parked.index


def test_after_a_long_absence_all_that_is_due_comes_at_once_in_order() -> None:
    log, refs = month()
    log.tick(at=3_600_000 * 24 * 31)

    state = log.folded()

    assert [event.ref for event in due(state)] == sorted(refs)
    assert due(state) == []


def test_a_message_is_found_at_whatever_level_it_is() -> None:
    log, refs = month()
    for ref in refs:
        log.cancel(ref, at=1)

    assert len(log.folded().parked) == 0


def test_a_chunk_that_is_gone_does_not_keep_the_log() -> None:
    log = MarkersLog()
    released = log.park(at=0, delay_ms=100_000)
    waiting = log.park(at=0, delay_ms=400_000)
    log.released(released, at=100_001)

    assert needed_from(log.folded()) == waiting.offset


def test_the_log_is_needed_from_the_oldest_parked_message_on() -> None:
    log = MarkersLog()
    first = log.park(at=0, delay_ms=500)
    second = log.park(at=0, delay_ms=90_000_000)
    kept = needed_from(log.folded())
    log.released(first, at=600)

    assert kept == first.offset
    assert needed_from(log.folded()) == second.offset
