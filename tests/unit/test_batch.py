"""What a batch of a hold-log partition comes to."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marq.core.fold import batch, snapshot
from marq.core.fold.batch import SOURCES_A_TRIM, TRIM_EVERY_MS
from marq.core.fold.fold import fold
from marq.core.fold.restate import RESTATE_AFTER_MS, caught_up, needed_from, restatement
from marq.core.fold.sources import IDLE_MS
from marq.core.fold.state import State
from marq.core.markers import codec
from marq.core.markers.marker import Action, KeepAlive, Parked, Part, Restate
from marq.errors import MalformedMarker
from tests.properties.hold_log import ORDERS, START_MS, MarkersLog, open_offsets


def test_a_batch_survives_the_way_to_act() -> None:
    log = MarkersLog()
    log.claim(offsets=[7, 8], at=0)
    log.park(at=0, delay_ms=500)
    log.tick(at=1_000)

    made = batch.conclude(log.folded(), start=3, caught_up=True)

    assert batch.decode(batch.encode(made)) == made
    assert [event.offset for event in made.overdue] == [7, 8]
    assert len(made.due) == 1
    assert (made.start, made.end) == (3, len(log.records))


def test_its_events_come_in_the_order_they_lapsed() -> None:
    log = MarkersLog()
    log.park(at=0, delay_ms=900)
    log.claim(offsets=[7], lease_ms=800, at=0)
    log.park(at=0, delay_ms=700)
    log.tick(at=1_000)

    events = batch.conclude(log.folded(), start=0, caught_up=True).events()

    assert [event.lapse_ms - START_MS for event in events] == [700, 800, 900]


def test_while_it_catches_up_nothing_is_emitted_or_trimmed() -> None:
    log = MarkersLog()
    log.claim(offsets=[7], at=0)
    log.tick(at=TRIM_EVERY_MS * 2)
    log.tick(at=TRIM_EVERY_MS * 2 + 1_000)

    made = batch.conclude(log.folded(), start=0, caught_up=False)

    assert not made.events()
    assert not made.restate
    assert not made.trim_to


def test_the_log_is_trimmed_to_what_is_open_and_not_beyond_the_batch() -> None:
    log = MarkersLog()
    claimed_at = len(log.records)
    log.claim(offsets=[7], lease_ms=100_000, at=0)
    log.tick(at=10)
    state = log.folded()

    assert batch.conclude(state, start=len(log.records), caught_up=True).trim_to == claimed_at
    assert batch.conclude(state, start=2, caught_up=True).trim_to == 2


def test_after_a_restatement_was_read_the_next_one_waits() -> None:
    log = MarkersLog()
    log.append(restatement(log.folded()), at=0)
    log.tick(at=TRIM_EVERY_MS - 1)
    assert not batch.conclude(log.folded(), start=0, caught_up=True).restate

    log.tick(at=TRIM_EVERY_MS)
    assert batch.conclude(log.folded(), start=0, caught_up=True).restate
    assert not batch.conclude(log.folded(), start=0, caught_up=True, turn=1).restate


def test_a_claim_beaten_all_the_time_is_restated_with_the_beats_that_came_since() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], lease_ms=1_000, at=0)
    state = log.folded()
    made = restatement(state, older_than_ms=0)
    end = len(log.records)
    log.append(KeepAlive(claim.worker, (claim.sequence,)), at=500)
    known = State(end, state.clock_ms, state.lease_clock_ms, state.grace_ms)

    at = log.append(caught_up(made, known, log.records[end:]), at=510)

    after = log.folded()
    assert needed_from(after) == at
    assert after.claims[claim].parts[0].deadline_ms == START_MS + 1_500


def test_what_else_the_tail_opens_is_not_restated() -> None:
    log = MarkersLog()
    log.claim(offsets=[7], at=0)
    state = log.folded()
    made = restatement(state, older_than_ms=0)
    end = len(log.records)
    younger = log.claim(offsets=[8], worker=2, lease_ms=5_000, at=10)
    known = State(end, state.clock_ms, state.lease_clock_ms, state.grace_ms)

    now = caught_up(made, known, log.records[end:])

    assert younger not in {each.id for each in now.claims}
    log.append(now, at=20)
    assert open_offsets(log.folded()) == [7, 8]


def test_parked_messages_are_counted_by_queue() -> None:
    log = MarkersLog()
    for queue in ("a", "b", "a"):
        log.append(Parked(0, 60_000, 0, queue=queue), at=0)

    assert batch.conclude(log.folded(), start=0, caught_up=True).delayed == {"a": 2, "b": 1}


@given(st.binary(max_size=200), st.integers(0, 400))
def test_any_bytes_are_a_batch_or_a_typed_error(data: bytes, at: int) -> None:
    log = MarkersLog()
    log.claim(offsets=[7, 8], at=0)
    log.park(at=0, delay_ms=500)
    log.tick(at=1_000)
    whole = batch.encode(batch.conclude(log.folded(), start=3, caught_up=True))

    for doubtful in (data, whole[:at] + data + whole[at + len(data) :]):
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            batch.decode(doubtful)


def test_more_is_restated_than_one_record_of_a_log_may_say() -> None:
    """Each message of an old claim waits for a retry of its own: spelt out, 800 M indexes."""
    log = MarkersLog()
    log.claim(offsets=range(40_000), lease_ms=2 * RESTATE_AFTER_MS, at=0)
    log.tick(at=RESTATE_AFTER_MS)
    state = log.folded()
    for claim in state.claims.values():
        one = claim.parts[0]
        claim.parts = [
            Part(1 << index, one.deadline_ms + index, action=Action.REDELIVER)
            for index in range(40_000)
        ]

    made = batch.conclude(state, start=0, caught_up=True)

    with pytest.raises(MalformedMarker):
        codec.decode(made.restate)
    assert made.restatement() == restatement(state)


def test_a_batch_costs_what_is_at_work_however_many_sources_there_were() -> None:
    """Bytes of what is kept, and of what is told, after thousands of sources had their day."""
    log = MarkersLog()
    for number in range(2_000):
        source = ORDERS._replace(topic_id=number.to_bytes(16, "big"), queue=f"queue-{number}")
        log.acked(log.claim(offsets=[0], source=source, at=0), [0], at=0)
    state = log.folded()
    told = batch.encode(batch.conclude(state, 0, caught_up=False, told_to=1))
    log.claim(offsets=[7], lease_ms=999_000, at=IDLE_MS)
    fold(state, log)
    batch.conclude(state, 0, caught_up=False, told_to=1)

    made = batch.conclude(state, 0, caught_up=False, told_to=1)

    assert [source.queue for source in made.sources] == ["orders"]
    assert len(batch.encode(made)) < 300 < len(told)
    assert len(snapshot.dump(state)) < 300
    assert len(state.claimed) == 2_001
    assert len(batch.conclude(state, 0, caught_up=False, told_to=2).sources) == 2_001


def test_more_sources_are_written_down_less_often() -> None:
    def trims(sources: int, at: int) -> bool:
        log = MarkersLog()
        for number in range(sources):
            log.claim([0], source=ORDERS._replace(topic_id=number.to_bytes(16, "big")), at=0)
        log.append(Restate(0), at=1)
        log.ticks_to(at)
        return bool(batch.conclude(log.folded(), 0, caught_up=True).restate)

    assert not trims(1, TRIM_EVERY_MS)
    assert trims(1, TRIM_EVERY_MS + 1)
    assert not trims(SOURCES_A_TRIM, 2 * TRIM_EVERY_MS)
    assert trims(SOURCES_A_TRIM, 2 * TRIM_EVERY_MS + 1)
