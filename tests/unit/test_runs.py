"""Sets of offsets as runs."""

from __future__ import annotations

import pytest

from marq.core.markers.runs import Runs


def test_a_set_that_grows_at_its_end_stays_one_run() -> None:
    ever = Runs()
    for start in range(0, 5_000, 500):
        ever.add(start, start + 500)

    assert list(ever) == [(0, 5_000)]


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        ((3, 5), [(3, 5), (10, 20), (30, 40)]),
        ((5, 10), [(5, 20), (30, 40)]),
        ((20, 30), [(10, 40)]),
        ((12, 13), [(10, 20), (30, 40)]),
        ((0, 100), [(0, 100)]),
        ((15, 35), [(10, 40)]),
        ((40, 41), [(10, 20), (30, 41)]),
        ((22, 22), [(10, 20), (30, 40)]),
    ],
)
def test_runs_that_touch_or_overlap_become_one(
    added: tuple[int, int], expected: list[tuple[int, int]]
) -> None:
    ever = Runs([(10, 20), (30, 40)])
    ever.add(*added)

    assert list(ever) == expected


def test_an_end_is_not_in_the_run() -> None:
    ever = Runs([(10, 20)])

    assert (9 in ever, 10 in ever, 19 in ever, 20 in ever) == (False, True, True, False)
    assert not ever.meets(20, 30)
    assert not ever.meets(0, 10)
    assert ever.meets(0, 11)


def test_within_cuts_the_runs_to_the_window() -> None:
    ever = Runs([(10, 20), (30, 40), (50, 60)])

    assert list(ever.within(15, 55)) == [(15, 20), (30, 40), (50, 55)]


def test_without_leaves_what_the_other_has_not() -> None:
    ever = Runs([(0, 10), (20, 30)])

    assert list(ever.without(Runs([(2, 4), (8, 22)]))) == [(0, 2), (4, 8), (22, 30)]
    assert ever.without(Runs()) == ever
    assert len(ever.without(ever)) == 0
