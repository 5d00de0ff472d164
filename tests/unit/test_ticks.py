"""What a tick's offset says of the partition that took it."""

from __future__ import annotations

import pytest

from marq.kafka.tracker.ticks import LastTick


def last_tick(*offsets: int) -> LastTick:
    found = LastTick()
    for offset in offsets:
        found.took(offset, 1_000 + offset)
    return found


def test_ticks_in_a_row_have_nothing_between_them() -> None:
    found = last_tick(7, 8, 9)

    assert found.is_alone(since=7)
    assert found.is_alone(since=20)  # read beyond the latest: of what follows nothing is known
    assert not found.is_alone(since=6)
    assert found.at_ms == 1_009


def test_the_first_tick_of_a_new_log_has_nothing_before_it() -> None:
    assert last_tick(0).is_alone(since=0)


def test_an_offset_that_was_left_out_is_another_record_s() -> None:
    found = last_tick(7, 8, 10)

    assert not found.is_alone(since=9)
    assert found.is_alone(since=10)


def test_of_a_log_that_lost_its_end_nothing_is_known_before_another_record_is() -> None:
    assert not last_tick(7, 8, 3, 4).is_alone(since=9)
    assert last_tick(7, 8, 3, 4, 6).is_alone(since=6)


def test_nothing_is_known_before_the_first_tick_nor_long_after_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not last_tick().is_alone(since=0)

    found = last_tick(7)
    found.heard_at -= 1.0

    assert not found.is_alone(since=7)
