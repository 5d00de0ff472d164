"""The `marq` header: only what must be said, readable by older and newer versions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marq.core.markers.reason import REASON_CHARS
from marq.core.markers.wire import LATEST_MS, LONGEST_MS, MOST, WireWriter
from marq.core.messages import header
from marq.core.messages.header import HISTORY, NAME, PLAIN, Meta, Past
from marq.errors import MalformedMarker, MarkerError, UnknownMarkerVersion

texts = st.text(st.characters(codec="utf-8"), max_size=20)
numbers = st.integers(0, MOST)
counts = st.integers(1, MOST)
durations = st.integers(0, LONGEST_MS)
times = st.integers(0, LATEST_MS)
pasts = st.builds(Past, attempt=numbers, at_ms=times, worker=texts, reason=texts)
unknown = st.one_of(
    st.tuples(st.integers(11, 1 << 40).map(lambda tag: tag << 1), st.integers(0, (1 << 64) - 1)),
    st.tuples(st.integers(5, 1 << 40).map(lambda tag: tag << 1 | 1), st.binary(max_size=20)),
)
metas = st.builds(
    Meta,
    message_id=texts,
    queue=texts,
    attempt=counts,
    copies=numbers,
    delay_ms=durations,
    due_ms=times,
    ahead_ms=durations,
    ttl_ms=durations,
    expires_ms=times,
    origin=texts,
    sent_ms=times,
    suspect=st.booleans(),
    history=st.lists(pasts, max_size=3).map(tuple),
    expired=numbers,
    unknown=st.lists(unknown, max_size=3).map(tuple),
)
user_headers = st.lists(
    st.tuples(texts.filter(lambda name: name != NAME), st.binary(max_size=20)), max_size=3
).map(tuple)


@given(metas)
def test_what_was_said_is_read_back(meta: Meta) -> None:
    assert header.decode(header.encode(meta)) == meta


@given(metas, user_headers)
def test_the_user_s_headers_pass_through_untouched(
    meta: Meta, headers: tuple[tuple[str, bytes], ...]
) -> None:
    assert header.split(header.join(meta, headers)) == (meta, headers)


def within_bounds(meta: Meta) -> bool:
    """Whether nothing that is reckoned with these can overflow."""
    counts = (meta.attempt - 1, meta.copies, meta.expired)
    spans = (meta.delay_ms, meta.ahead_ms, meta.ttl_ms)
    moments = (meta.due_ms, meta.expires_ms, meta.sent_ms, *(past.at_ms for past in meta.history))
    return (
        all(0 <= value < 1 << 31 for value in counts)
        and all(0 <= value <= 1 << 48 for value in spans)
        and all(0 <= value <= 1 << 49 for value in moments)
        and len(meta.history) <= HISTORY
        and all(len(past.reason) <= REASON_CHARS for past in meta.history)
    )


@given(st.one_of(st.binary(max_size=60), st.binary(max_size=60).map(b"\x01".__add__)))
def test_any_bytes_are_bounded_or_the_user_s_but_never_a_crash(value: bytes) -> None:
    headers = ((NAME, value), ("a", b"b"))

    meta, rest = header.split(headers)

    assert rest in (headers, headers[1:])
    assert meta == PLAIN or rest == headers[1:]
    assert within_bounds(meta)


@given(metas, st.data())
def test_a_header_with_changed_bytes_is_bounded_or_refused(meta: Meta, data: st.DataObject) -> None:
    changed = bytearray(header.encode(meta))
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))

    try:
        found = header.decode(bytes(changed))
    except MarkerError:
        return
    assert within_bounds(found)
    assert header.decode(header.encode(found)) == found


@pytest.mark.parametrize(
    ("tag", "value"),
    [
        (1, 0),
        (1, (1 << 64) - 1),
        (2, (1 << 64) - 1),
        (3, (1 << 64) - 1),
        (4, 1 << 50),
        (6, (1 << 64) - 1),
        (8, 1 << 63),
        (10, 1 << 31),
    ],
)
def test_a_number_that_no_marq_writes_makes_the_message_a_plain_one(tag: int, value: int) -> None:
    forged = WireWriter(b"\x01")
    forged.numbers((tag << 1, value))
    headers = ((NAME, forged.bytes()),)

    assert header.split(headers) == (PLAIN, headers)


def test_a_text_longer_than_any_id_makes_the_message_a_plain_one() -> None:
    headers = ((NAME, header.encode(Meta(message_id="x" * 1_025))),)

    assert header.split(headers) == (PLAIN, headers)


def test_a_count_is_written_as_the_most_that_is_read() -> None:
    assert header.decode(header.encode(Meta(copies=MOST + 1))) == Meta(copies=MOST)


def test_a_time_beyond_the_calendar_is_its_last_moment() -> None:
    assert Past(1, LATEST_MS, "w", "").at.year == 9_999


def test_a_plain_message_has_no_header_of_ours() -> None:
    assert header.join(PLAIN, (("a", b"b"),)) == (("a", b"b"),)


def test_the_bytes_are_frozen() -> None:
    meta = Meta(message_id="7", attempt=2, copies=1, due_ms=5, suspect=True)

    assert header.encode(meta).hex() == "0102020401080512010301" + "37"


def test_what_a_newer_marq_said_is_kept_in_the_copies() -> None:
    newer = WireWriter(header.encode(Meta(attempt=3)))
    newer.numbers((99 << 1, 7))
    newer.number(98 << 1 | 1)
    newer.blob(b"unknown")

    found = header.decode(newer.bytes())

    assert found == Meta(attempt=3, unknown=((99 << 1, 7), (98 << 1 | 1, b"unknown")))
    assert header.encode(found) == newer.bytes()


@pytest.mark.parametrize("value", [b"", b"\x00", b"\x01\x02", b"\x01\x03\x05ab"])
def test_what_is_not_ours_is_the_user_s_own_header(value: bytes) -> None:
    with pytest.raises(MalformedMarker):
        header.decode(value)

    assert header.split(((NAME, value),)) == (PLAIN, ((NAME, value),))


@pytest.mark.parametrize("value", [b"\x03", b"text"])
def test_in_a_queue_a_newer_version_makes_the_message_a_plain_one(value: bytes) -> None:
    with pytest.raises(UnknownMarkerVersion, match="upgrade the tracker first"):
        header.decode(value)

    assert header.split(((NAME, value),)) == (PLAIN, ((NAME, value),))


def test_only_the_first_header_can_be_ours() -> None:
    headers = (("a", b"b"), (NAME, header.encode(Meta(attempt=2))))

    assert header.split(headers) == (PLAIN, headers)


def test_delay_and_ttl_count_from_the_append_time() -> None:
    meta = Meta(delay_ms=10, ttl_ms=20)

    assert (meta.due_at(1_000), meta.expires_at(1_000)) == (1_010, 1_020)


def test_absolute_times_stand_whenever_the_copy_was_appended() -> None:
    meta = Meta(due_ms=10, expires_ms=20)

    assert (meta.due_at(1_000), meta.expires_at(1_000)) == (10, 20)
    assert (PLAIN.due_at(1_000), PLAIN.expires_at(1_000)) == (0, 0)


def test_the_history_keeps_the_last_attempts_and_cuts_their_reasons() -> None:
    history: tuple[Past, ...] = ()
    for attempt in range(1, HISTORY + 4):
        history = header.remember(history, Past(attempt, 0, "w", "x" * 1_000))

    assert [past.attempt for past in history] == list(range(4, HISTORY + 4))
    assert {len(past.reason) for past in history} == {REASON_CHARS}
