"""Laws of the marker codec, for any marker and for any bytes."""

from __future__ import annotations

import contextlib
import tracemalloc

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from marq.core.markers import codec
from marq.core.markers.marker import (
    Action,
    Claim,
    ClaimId,
    Held,
    Hold,
    KeepAlive,
    Marker,
    Progress,
    Source,
    Step,
)
from marq.errors import MalformedMarker, MarkerError, NotAMarker, UnknownMarkerVersion
from tests.properties import markers

HEADS = [
    *(bytes((codec.MAGIC, codec.VERSION, kind)) for kind in range(1, 8)),
    bytes((codec.MAGIC, 2, 9)),
]


@pytest.mark.parametrize("kind", markers.kinds)
@given(data=st.data())
def test_a_marker_comes_back_as_it_was(kind: str, data: st.DataObject) -> None:
    marker = data.draw(markers.kinds[kind])

    assert codec.decode(codec.encode(marker)) == marker


@given(markers.markers)
def test_equal_markers_have_equal_bytes(marker: Marker) -> None:
    encoded = codec.encode(marker)

    assert codec.encode(codec.decode(encoded)) == encoded


@given(markers.markers)
def test_no_prefix_of_a_marker_is_a_marker(marker: Marker) -> None:
    encoded = codec.encode(marker)

    for size in range(len(encoded)):
        with pytest.raises(MarkerError):
            codec.decode(encoded[:size])


@given(markers.markers, st.binary(min_size=1, max_size=8))
def test_nothing_may_follow_a_marker(marker: Marker, more: bytes) -> None:
    with pytest.raises(MalformedMarker):
        codec.decode(codec.encode(marker) + more)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_marker_or_a_typed_error(data: bytes) -> None:
    with contextlib.suppress(MarkerError):
        codec.decode(data)


@given(st.sampled_from(HEADS), st.binary(max_size=400))
def test_any_bytes_after_a_true_head_are_a_marker_or_malformed(head: bytes, data: bytes) -> None:
    with contextlib.suppress(MalformedMarker):
        codec.decode(head + data)


@given(markers.markers, st.data())
def test_a_marker_with_changed_bytes_is_a_marker_or_a_typed_error(
    marker: Marker, data: st.DataObject
) -> None:
    changed = bytearray(codec.encode(marker))
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))

    with contextlib.suppress(MarkerError):
        codec.decode(bytes(changed))


@given(st.sampled_from(HEADS), st.lists(st.binary(max_size=2_000), max_size=20))
@example(HEADS[2], [bytes(8) + b"\x01\x00\xff\xff\x3f"])
def test_no_bytes_make_a_reader_allocate_wildly(head: bytes, bodies: list[bytes]) -> None:
    tracemalloc.start()
    for body in bodies:
        with contextlib.suppress(MarkerError):
            codec.decode(head + body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 64_000_000


@given(st.binary(min_size=1).filter(lambda data: data[0] != codec.MAGIC))
def test_what_starts_otherwise_is_not_a_marker(data: bytes) -> None:
    with pytest.raises(NotAMarker):
        codec.decode(data)


@given(st.integers(codec.VERSION + 1, 255), st.integers(0, 255), st.binary())
def test_what_a_newer_release_wrote_is_told_apart(version: int, kind: int, data: bytes) -> None:
    assume((version, kind) != (2, 9))

    with pytest.raises(UnknownMarkerVersion):
        codec.decode(bytes((codec.MAGIC, version, kind)) + data)


anything = st.integers(-2, 1 << 66) | st.integers(0, 70_000)
any_ids = st.builds(ClaimId, st.integers(0, (1 << 64) - 1), anything)
any_sources = st.builds(
    Source,
    st.binary(min_size=15, max_size=16),
    anything,
    markers.texts | markers.topics,
    st.just(""),
    anything,
)
any_runs = st.lists(st.tuples(anything, anything), max_size=3).map(tuple)
any_actions = st.sampled_from(Action)
any_held = st.builds(Held, any_ids, markers.masks(), any_actions, anything, anything)
doubtful: st.SearchStrategy[Marker] = st.one_of(
    st.builds(Claim, any_ids, any_sources, anything, any_runs, anything),
    st.builds(KeepAlive, markers.words, st.lists(anything, max_size=4).map(tuple)),
    st.builds(Hold, st.lists(any_held, max_size=2).map(tuple)),
    st.builds(Progress, st.lists(st.builds(Step, any_ids, markers.masks()), max_size=3).map(tuple)),
)


@given(doubtful)
def test_the_writer_refuses_what_the_reader_would(marker: Marker) -> None:
    try:
        encoded = codec.encode(marker)
    except ValueError:
        return

    assert codec.decode(encoded) == marker
