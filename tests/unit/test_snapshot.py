"""The state as bytes: small, complete, and refused when it is of another version."""

from __future__ import annotations

import pytest

from marq.core.fold import snapshot
from marq.core.fold.fold import fold
from marq.core.fold.overdue import emit
from marq.core.fold.state import State
from marq.core.markers.marker import Action
from marq.core.markers.wire import LONGEST_MS
from tests.properties.hold_log import ORDERS, MarkersLog, blobs, open_offsets, restored


def eventful() -> MarkersLog:
    log = MarkersLog()
    first = log.claim(offsets=[7, 8, 9, 20], lease_ms=1_000, at=0)
    log.claim(offsets=[9, 30], worker=2, at=1)
    log.claim(offsets=[1], source=ORDERS._replace(subscription="audit", epoch=3), at=1)
    log.begun(first, [7], attempt=2, kept_alive=True, ahead_ms=300, at=10)
    log.hold(first, [8], Action.BURY, reason="näh", after_ms=900, at=20)
    log.park(at=30, delay_ms=600)
    log.park(at=30, delay_ms=86_400_000, ahead_ms=3_000)
    log.append(None, at=40)
    log.tick(at=950)
    return log


def test_a_state_comes_back_as_it_was_marks_twins_and_all() -> None:
    state = eventful().folded()
    emit(state)

    assert blobs(restored(state)) == blobs(state)
    assert restored(state).claims == state.claims
    assert restored(state).parked.chunks == state.parked.chunks


def test_a_state_that_was_put_away_goes_on_as_if_it_had_not_been() -> None:
    log = eventful()
    kept = log.folded()
    emit(kept)
    put_away = restored(kept)
    log.ticks_to(2_500)

    assert emit(fold(put_away, log)) == emit(fold(kept, log))
    assert blobs(put_away) == blobs(kept)


def test_a_snapshot_of_another_version_is_not_read_because_the_log_says_the_same() -> None:
    blob = snapshot.dump(State())

    with pytest.raises(snapshot.StaleSnapshot):
        snapshot.load(bytes((snapshot.VERSION + 1,)) + blob[1:])


def test_a_lease_as_long_as_a_record_can_say_still_comes_back() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[7], lease_ms=LONGEST_MS, at=0)
    log.hold(claim, [7], Action.REDELIVER, after_ms=LONGEST_MS, ahead_ms=LONGEST_MS, at=1)
    log.park(at=2, delay_ms=LONGEST_MS)

    state = log.folded()

    assert blobs(restored(state)) == blobs(state)


def test_a_hundred_thousand_ended_messages_leave_a_state_of_a_few_bytes() -> None:
    log = MarkersLog()
    for start in range(0, 100_000, 1_000):
        claim = log.claim(offsets=range(start, start + 1_000), at=0)
        log.acked(claim, range(start, start + 1_000), at=0)

    state = log.folded()

    assert open_offsets(state) == []
    assert len(snapshot.dump(state)) < 80


def test_a_claim_with_one_message_left_costs_no_more_than_one_message() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=range(10_000), at=0)
    log.acked(claim, range(9_999), at=1)

    assert len(snapshot.dump(log.folded())) < 150
