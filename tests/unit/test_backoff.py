"""Backoff: doubled each time up to the cap, spread by a quarter, never less than said."""

from __future__ import annotations

import pytest

from marq.core.fate.backoff import backoff_ms


def test_the_wait_doubles_up_to_its_cap() -> None:
    waits = [backoff_ms(1_000, 60_000, attempt, 0) for attempt in range(1, 9)]

    assert waits == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]


@pytest.mark.parametrize("attempt", [1, 5, 1_000_000])
def test_jitter_adds_up_to_a_quarter(attempt: int) -> None:
    exact = backoff_ms(1_000, 60_000, attempt, 0)

    assert backoff_ms(1_000, 60_000, attempt, 0.5) == exact + exact // 8
    assert backoff_ms(1_000, 60_000, attempt, 1) == exact + exact // 4


def test_no_backoff_is_no_wait() -> None:
    assert backoff_ms(0, 0, 7, 0.9) == 0


@pytest.mark.parametrize("attempt", [-1, 0])
def test_an_attempt_that_cannot_be_waits_as_the_first(attempt: int) -> None:
    assert backoff_ms(1_000, 60_000, attempt, 0) == 1_000
