"""Runs of offsets, sets of indexes and claimed messages, against Python's own sets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from marq.core.markers import bits, claimed
from marq.core.markers.runs import Runs
from tests.properties.hold_log import runs_of

pairs = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=12)
some = st.sets(st.integers(0, 60))


def spelled(runs: Runs) -> set[int]:
    return {offset for start, stop in runs for offset in range(start, stop)}


@given(pairs, pairs, st.integers(0, 60), st.integers(0, 60))
def test_runs_are_sets_of_offsets(
    added: list[tuple[int, int]], taken: list[tuple[int, int]], low: int, high: int
) -> None:
    runs, others = Runs(added), Runs(taken)
    offsets = {offset for start, stop in added for offset in range(start, stop)}
    window = set(range(low, high))

    assert spelled(runs) == offsets
    assert spelled(runs.without(others)) == offsets - spelled(others)
    assert spelled(Runs(runs.within(low, high))) == offsets & window
    assert runs.meets(low, high) == bool(offsets & window)
    assert (low in runs) == (low in offsets)


@given(pairs)
def test_runs_are_in_order_and_never_touch(added: list[tuple[int, int]]) -> None:
    edges = [edge for run in Runs(added) for edge in run]

    assert edges == sorted(set(edges))


@given(pairs)
def test_runs_do_not_depend_on_the_order_of_what_was_added(added: list[tuple[int, int]]) -> None:
    assert Runs(added) == Runs(reversed(added)) == Runs(sorted(added))


@given(some)
def test_a_mask_is_its_indexes(indexes: set[int]) -> None:
    mask = bits.of(indexes)

    assert list(bits.indexes(mask)) == sorted(indexes)
    assert bits.of(i for start, count in bits.runs(mask) for i in range(start, start + count)) == (
        mask
    )


@given(some.filter(bool), some, st.integers(0, 60), st.integers(0, 60))
def test_the_indexes_of_a_claim_number_its_offsets(
    offsets: set[int], chosen: set[int], low: int, high: int
) -> None:
    runs, numbered = runs_of(offsets), sorted(offsets)
    mask = bits.of(index for index in chosen if index < len(numbered))

    assert claimed.size(runs) == len(offsets)
    assert claimed.end(runs) == max(offsets) + 1
    assert [numbered[i] for i in bits.indexes(mask)] == [n for _, n in claimed.numbered(runs, mask)]
    assert spelled(Runs(claimed.offsets(runs, mask))) == {numbered[i] for i in bits.indexes(mask)}
    assert claimed.indexes(runs, low, high) == bits.of(
        i for i, offset in enumerate(numbered) if low <= offset < high
    )
