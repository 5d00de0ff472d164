"""The `marq` header: only what must be said, readable by older and newer versions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marq.core import header
from marq.core.header import HISTORY, NAME, PLAIN, Meta, Past
from marq.core.reason import REASON_CHARS
from marq.core.wire import Writer
from marq.errors import MalformedMarker

texts = st.text(st.characters(codec="utf-8"), max_size=20)
numbers = st.integers(0, 1 << 50)
pasts = st.builds(Past, attempt=numbers, at_ms=numbers, worker=texts, reason=texts)
metas = st.builds(
    Meta,
    message_id=texts,
    queue=texts,
    attempt=numbers,
    copies=numbers,
    delay_ms=numbers,
    due_ms=numbers,
    ahead_ms=numbers,
    ttl_ms=numbers,
    expires_ms=numbers,
    origin=texts,
    sent_ms=numbers,
    suspect=st.booleans(),
    history=st.lists(pasts, max_size=3).map(tuple),
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


@given(st.binary(max_size=30))
def test_any_bytes_are_ours_or_the_user_s_but_never_a_crash(value: bytes) -> None:
    headers = ((NAME, value), ("a", b"b"))

    meta, rest = header.split(headers)

    assert rest in (headers, headers[1:])
    assert meta == PLAIN or rest == headers[1:]


def test_a_plain_message_has_no_header_of_ours() -> None:
    assert header.join(PLAIN, (("a", b"b"),)) == (("a", b"b"),)


def test_the_bytes_are_frozen() -> None:
    meta = Meta(message_id="7", attempt=2, copies=1, due_ms=5, suspect=True)

    assert header.encode(meta).hex() == "0102020401080512010301" + "37"


def test_fields_of_a_newer_version_are_skipped() -> None:
    newer = Writer(header.encode(Meta(attempt=3)))
    newer.numbers((99 << 1, 7))
    newer.number(98 << 1 | 1)
    newer.blob(b"unknown")

    assert header.decode(newer.bytes()) == Meta(attempt=3)


@pytest.mark.parametrize("value", [b"", b"\x02", b"\x01\x02", b"\x01\x03\x05ab", b"text"])
def test_what_is_not_ours_is_the_user_s_own_header(value: bytes) -> None:
    with pytest.raises(MalformedMarker):
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
