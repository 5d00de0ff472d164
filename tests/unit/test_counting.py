"""What a fold knows of each source partition."""

from __future__ import annotations

from marq.core.fold.counting import SourceCount, source_counts
from marq.core.markers.marker import Action
from marq.core.markers.runs import Runs
from tests.properties.hold_log import ORDERS, MarkersLog


def count(log: MarkersLog) -> SourceCount:
    state = log.folded()
    (found,) = source_counts(state, state.claimed)
    return found


def test_messages_are_counted_by_what_they_do() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[0, 1, 2, 3, 4], lease_ms=9_000, at=0)
    log.begun(claim, [1, 2, 3], lease_ms=9_000, at=1)
    log.acked(claim, [1], at=2)
    log.hold(claim, [3], Action.REDELIVER, after_ms=5_000, at=3)

    found = count(log)

    assert (found.fetched, found.begun, found.held, found.oldest) == (2, 1, 1, 0)
    assert found.polled_to == 5
    assert (found.topic_id, found.queue) == (ORDERS.topic_id, ORDERS.queue)


def test_a_topic_is_settled_up_to_its_oldest_open_message() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[0, 1, 2, 3], at=0)
    assert count(log).settled_to(0) == 0

    log.acked(claim, [0, 1, 3], at=1)
    assert count(log).settled_to(0) == 2

    log.acked(claim, [2], at=2)
    assert count(log).settled_to(0) == 4


def test_what_was_never_claimed_is_not_settled() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[5, 6], at=0)
    log.acked(claim, [5, 6], at=1)

    assert count(log).settled_to(0) == 0
    assert count(log).settled_to(5) == 7
    assert count(log).settled_to(9) == 9


def test_a_topic_is_unclaimed_from_where_the_claims_since_its_start_end() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[0, 1, 2], at=0)
    log.acked(claim, [0], at=1)
    log.claim(offsets=[5], at=2)
    found = count(log)

    assert found.unclaimed_from(0) == found.unclaimed_from(2) == 3
    assert found.unclaimed_from(5) == 6
    assert found.unclaimed_from(9) == 9


def test_records_nobody_has_claimed_are_left() -> None:
    log = MarkersLog()
    log.claim(offsets=[1, 3], at=0)
    found = count(log)

    assert list(found.never_claimed(Runs([(0, 6)]))) == list(
        Runs([(0, 6)]).without(Runs(found.ever))
    )
    assert 5 in found.never_claimed(Runs([(0, 6)]))


def test_what_is_known_to_be_empty_needs_no_claim() -> None:
    log = MarkersLog()
    claim = log.claim(offsets=[0, 1, 2], at=0)
    other = log.claim(offsets=[4, 5], at=1)
    log.acked(claim, [0, 1, 2], at=2)
    log.acked(other, [4], at=3)

    assert count(log).settled_to(0) == 3
    assert count(log).settled_to(0, Runs([(3, 4)])) == 5


def test_a_hole_lies_between_claims_and_near_ones_are_read_with_it() -> None:
    found = SourceCount(b"", 0, "orders", "", [(2, 3), (4, 5), (300, 301)])

    assert found.hole(0, Runs(), most=1_000) == (0, 300)
    assert found.hole(0, Runs([(0, 2)]), most=1_000) == (3, 300)
    assert found.hole(0, Runs(), most=10) == (0, 10)
    assert found.hole(300, Runs(), most=10) is None


def test_messages_between_holes_are_not_read_when_they_are_many() -> None:
    found = SourceCount(b"", 0, "orders", "", [(1, 1_000), (1_001, 1_050), (1_052, 1_060)])

    assert found.hole(0, Runs(), most=10_000) == (0, 1)
    assert found.hole(1, Runs(), most=10_000) == (1_000, 1_052)


def test_there_is_no_hole_above_what_is_open() -> None:
    found = SourceCount(b"", 0, "orders", "", [(0, 5), (6, 9)], oldest=2)

    assert found.hole(0, Runs(), most=10) is None
