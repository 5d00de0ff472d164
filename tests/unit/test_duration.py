"""Durations as users write them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marq.core.duration import LONGEST_MS, milliseconds, text
from marq.errors import ConfigError


@pytest.mark.parametrize(
    ("written", "meant_ms"),
    [
        ("250ms", 250),
        ("30s", 30_000),
        ("1.5s", 1_500),
        ("5m", 300_000),
        ("12h", 43_200_000),
        ("7d", 604_800_000),
        (" 5 m ", 300_000),
        ("0s", 0),
        (30, 30_000),
        (0.25, 250),
        (timedelta(minutes=2), 120_000),
    ],
)
def test_a_duration_is_read(written: Any, meant_ms: int) -> None:
    assert milliseconds(written, "lease") == meant_ms


@pytest.mark.parametrize("bad", ["", "5", "s", "5 weeks", "-5s", "1e3s", None, True, [], b"5s"])
def test_what_is_no_duration_is_refused_with_examples(bad: Any) -> None:
    with pytest.raises(ConfigError, match='lease must be a duration like "250ms", "30s"'):
        milliseconds(bad, "lease")


@pytest.mark.parametrize(
    "bad", [-1, -0.001, timedelta(seconds=-1), "3651d", float("inf"), float("nan"), 10**30]
)
def test_a_duration_out_of_bounds_is_refused(bad: Any) -> None:
    with pytest.raises(ConfigError, match="lease must be between 0 and 3650d"):
        milliseconds(bad, "lease")


@pytest.mark.parametrize(
    ("duration_ms", "written"),
    [(0, "0s"), (1, "1ms"), (1_500, "1500ms"), (60_000, "1m"), (90_000, "90s"), (86_400_000, "1d")],
)
def test_a_duration_is_shown_in_the_largest_unit_that_fits(duration_ms: int, written: str) -> None:
    assert text(duration_ms) == written


@given(st.integers(0, LONGEST_MS))
def test_what_is_shown_reads_as_the_same_duration(duration_ms: int) -> None:
    assert milliseconds(text(duration_ms), "lease") == duration_ms
