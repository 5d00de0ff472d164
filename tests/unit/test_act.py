"""Which events still stand when act is about to perform them, and the record that ends them."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from marq.core.fate import act
from marq.core.fold.fold import fold
from marq.core.fold.overdue import Event, Overdue, emit
from marq.core.fold.state import State
from marq.core.markers.marker import (
    Action,
    Claim,
    ClaimId,
    Marker,
    Parked,
    Restate,
    Source,
    Tick,
)
from marq.core.markers.runs import Runs
from tests.properties.hold_log import ORDERS, MarkersLog, open_offsets, restored


def emitted(log: MarkersLog) -> tuple[State, list[Event]]:
    """The state at the end of the log so far, and its events."""
    state = log.folded()
    return state, emit(state)


def tail(log: MarkersLog, state: State) -> list[Marker | Parked | None]:
    """What lies in the log after the batch."""
    return [record.body for record in log.records[state.next_offset :]]


def test_what_nothing_speaks_against_stands() -> None:
    log = MarkersLog()
    log.claim(offsets=[7], at=0)
    log.park(at=0, delay_ms=500)
    log.tick(at=1_000)
    state, events = emitted(log)
    log.append(Tick(), at=1_001)
    log.append(None, at=1_002)
    log.append(Restate(3), at=1_003)
    log.park(at=1_004, delay_ms=9)

    assert act.standing(events, tail(log, state)) == events
    assert len(events) == 2


def test_what_was_acked_after_the_batch_is_dropped() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7, 8], at=0)
    log.tick(at=1_000)
    state, events = emitted(log)
    log.acked(claim, [7], at=1_001)

    left = act.standing(events, tail(log, state))

    assert [event.offset for event in left] == [8]  # type: ignore[union-attr]


def test_what_was_acked_under_a_claim_that_does_not_speak_for_it_is_dropped() -> None:
    log = MarkersLog()
    one = log.claim(offsets=[7], lease_ms=900, worker=1, at=0)
    log.claim(offsets=[7], lease_ms=1_000, worker=2, at=0)
    log.tick(at=1_000)
    state, events = emitted(log)
    log.acked(one, [7], at=1_001)

    assert len(events) == 1
    assert act.standing(events, tail(log, state)) == []


def test_what_was_claimed_again_is_dropped_because_someone_has_it() -> None:
    log = MarkersLog()
    log.claim(offsets=[7, 8], at=0)
    log.tick(at=1_000)
    state, events = emitted(log)
    log.claim(offsets=[8, 9], worker=2, at=1_001)

    left = act.standing(events, tail(log, state))

    assert [event.offset for event in left] == [7]  # type: ignore[union-attr]


def test_its_own_claim_sent_twice_is_no_new_claim() -> None:
    log = MarkersLog()
    log.claim(offsets=[7], at=0)
    log.tick(at=1_000)
    state, events = emitted(log)
    log.again(state.next_offset - 2, at=1_001)

    assert act.standing(events, tail(log, state)) == events


def test_a_claim_by_another_subscription_is_none_of_its_business() -> None:
    log = MarkersLog()
    log.claim(offsets=[7], at=0)
    log.tick(at=1_000)
    state, events = emitted(log)
    log.claim(offsets=[7], source=ORDERS._replace(subscription="audit"), worker=2, at=1_001)

    assert act.standing(events, tail(log, state)) == events


def test_what_was_open_before_a_seek_is_dropped_because_the_seek_made_it_void() -> None:
    log = MarkersLog()
    log.claim(offsets=[7], at=0)
    log.tick(at=1_000)
    state, events = emitted(log)
    log.claim(offsets=[3], source=ORDERS._replace(epoch=1), worker=2, at=1_001)

    assert act.standing(events, tail(log, state)) == []


def test_a_claim_from_before_the_seek_speaks_against_nothing() -> None:
    log = MarkersLog()
    sought = ORDERS._replace(epoch=1)
    log.claim(offsets=[7], source=sought, at=0)
    log.tick(at=1_000)
    state, events = emitted(log)
    log.claim(offsets=[7], source=ORDERS, worker=2, at=1_001)

    assert act.standing(events, tail(log, state)) == events


def test_what_the_tracker_has_put_off_is_dropped() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], at=0)
    ref = log.park(at=0, delay_ms=500)
    log.tick(at=1_000)
    state, events = emitted(log)
    log.hold(claim, [7], Action.EXTEND, after_ms=1_000, by_tracker=True, at=1_001)
    log.hold_parked(ref, Action.EXTEND, after_ms=1_000, by_tracker=True, at=1_001)

    assert act.standing(events, tail(log, state)) == []


def test_what_the_tracker_has_cancelled_is_dropped() -> None:
    log = MarkersLog()
    ref = log.park(at=0, delay_ms=500)
    log.tick(at=1_000)
    state, events = emitted(log)
    log.hold_parked(ref, Action.CANCEL, by_tracker=True, at=1_001)

    assert act.standing(events, tail(log, state)) == []
    assert len(fold(state, log).parked) == 0


def test_a_straggler_s_records_speak_against_nothing_because_they_came_too_late() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], at=0)
    ref = log.park(at=0, delay_ms=500)
    log.tick(at=1_000)
    state, events = emitted(log)
    log.begun(claim, [7], at=1_001)
    log.beat(claim, at=1_001)
    log.hold(claim, [7], Action.EXTEND, after_ms=9_000, at=1_001)
    log.hold(claim, [7], Action.BURY, at=1_001)
    log.cancel(ref, at=1_001)

    assert act.standing(events, tail(log, state)) == events


def test_a_released_message_is_not_released_again() -> None:
    log = MarkersLog()
    log.park(at=0, delay_ms=500)
    log.tick(at=1_000)
    state, events = emitted(log)
    log.append(act.ends(events), at=1_001)

    assert act.standing(events, tail(log, state)) == []


def test_the_ends_of_a_batch_are_one_record_and_end_every_claim_of_each_message() -> None:
    log = MarkersLog()
    log.claim(offsets=[5, 6, 7], worker=1, at=0)
    log.claim(offsets=[7, 8], worker=2, at=0)
    log.park(at=0, delay_ms=500)
    log.tick(at=1_000)
    state, events = emitted(log)

    log.append(act.ends(events), at=1_001)
    fold(state, log)

    assert open_offsets(state) == []
    assert (len(state.claims), len(state.parked)) == (0, 0)


def test_a_batch_that_is_run_again_from_its_checkpoint_drops_what_it_did_before() -> None:
    log = MarkersLog()
    log.claim(offsets=[5, 6, 7], at=0)
    checkpoint = restored(log.folded())
    log.tick(at=1_000)
    _, events = emitted(log)
    log.append(act.ends(events), at=1_001)

    fold(checkpoint, log.records[: checkpoint.next_offset + 1])
    again = emit(checkpoint)

    assert again == events
    assert act.standing(again, tail(log, checkpoint)) == []


def test_no_events_need_no_tail() -> None:
    assert act.standing([], iter([Tick()])) == []
    assert act.ends([]).steps == ()


def test_the_refused_are_set_apart_from_those_that_were_not() -> None:
    assert act.apart(5, {1, 3}) == ([0, 2, 4], [1, 3])


@given(number=st.integers(2, 40), data=st.data())
def test_whatever_the_batches_the_one_that_is_too_large_is_found(
    number: int, data: st.DataObject
) -> None:
    """A refusal is of any stretch of the events with a bad one in it."""
    bad = data.draw(st.sets(st.integers(0, number - 1), min_size=1))
    alone: set[int] = set()

    def write(events: list[int]) -> None:
        at_fault = [at for at, event in enumerate(events) if event in bad]
        if not at_fault:
            return
        if len(events) == 1:
            alone.update(events)
            return
        low = data.draw(st.integers(0, at_fault[0]))
        high = data.draw(st.integers(at_fault[0], len(events) - 1))
        for part in act.apart(len(events), set(range(low, high + 1))):
            assert len(part) < len(events)
            write([events[at] for at in part])

    write(list(range(number)))

    assert alone == bad


SOURCES = st.builds(
    lambda partition, epoch: ORDERS._replace(partition=partition, epoch=epoch),
    st.integers(0, 1),
    st.integers(0, 1),
)
CLAIM_IDS = st.builds(ClaimId, st.integers(1, 2), st.integers(1, 3))


@st.composite
def overdue(draw: st.DrawFn) -> Overdue:
    names = draw(st.sets(CLAIM_IDS, min_size=1, max_size=2))
    return an_overdue(draw(SOURCES), draw(st.integers(0, 9)), *names)


@st.composite
def claims(draw: st.DrawFn) -> Claim:
    runs = Runs((at, at + 1) for at in draw(st.sets(st.integers(0, 9), min_size=1)))
    said = tuple((low, high - low) for low, high in runs)
    return Claim(draw(CLAIM_IDS), draw(SOURCES), said[0][0], said, 1_000)


def an_overdue(source: Source, offset: int, *names: ClaimId) -> Overdue:
    ids = tuple((name, 0) for name in sorted(names))
    return Overdue(source, offset, ids, Action.EXPIRE, 0, 0, 1, False, "")


@given(st.lists(overdue()), st.lists(claims()))
def test_of_any_claims_in_the_tail_those_speak_that_cover_the_message(
    events: list[Overdue], tail: list[Claim]
) -> None:
    def speaks(claim: Claim, event: Overdue) -> bool:
        if claim.source[:4] != event.source[:4]:
            return False
        covers = any(first <= event.offset < first + count for first, count in claim.runs)
        own = claim.id in [name for name, _ in event.names]
        same_epoch = claim.source.epoch == event.source.epoch
        return claim.source.epoch > event.source.epoch or (same_epoch and covers and not own)

    left = act.standing(events, tail)

    assert left == [e for e in events if not any(speaks(claim, e) for claim in tail)]


def test_a_long_tail_costs_what_its_length_is_whatever_the_number_of_events() -> None:
    def cpu_s(number: int) -> float:
        """With so many events, and one claim for each of other messages of their source."""
        events = [an_overdue(ORDERS, 2 * at, ClaimId(1, at)) for at in range(number)]
        tail = [
            Claim(ClaimId(2, at), ORDERS, 2 * at + 1, ((2 * at + 1, 1),), 1_000)
            for at in range(number)
        ]
        began = time.process_time()
        assert len(act.standing(events, tail)) == number
        return time.process_time() - began

    few_s = min(cpu_s(500) for _ in range(3))

    assert cpu_s(4_000) < 30 * few_s  # eight times as much; each with each would be 64 times
