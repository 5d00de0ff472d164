"""Sets of indexes as integers, and the offsets of a claim they stand for."""

from __future__ import annotations

from marq.core.markers import bits, claimed

RUNS = ((100, 3), (200, 2))


def test_a_span_is_so_many_indexes_from_its_start() -> None:
    assert list(bits.indexes(bits.span(3, 4))) == [3, 4, 5, 6]
    assert bits.span(3, 0) == 0


def test_runs_are_found_from_low_to_high() -> None:
    assert list(bits.runs(bits.of([0, 1, 5, 7, 8, 9]))) == [(0, 2), (5, 1), (7, 3)]
    assert list(bits.runs(0)) == []


def test_the_index_of_a_message_counts_through_the_runs_of_its_claim() -> None:
    assert (claimed.size(RUNS), claimed.end(RUNS)) == (5, 202)
    assert list(claimed.numbered(RUNS, 0b11111)) == [
        (0, 100), (1, 101), (2, 102), (3, 200), (4, 201),
    ]  # fmt: skip


def test_offsets_between_the_runs_have_no_index() -> None:
    assert claimed.indexes(RUNS, 103, 200) == 0
    assert claimed.indexes(RUNS, 102, 201) == 0b01100
    assert list(claimed.offsets(RUNS, 0b01110)) == [(101, 103), (200, 201)]
