from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from marq.core.markers.reason import REASON_CHARS, cleaned


def test_a_reason_is_cut() -> None:
    assert cleaned("x" * 5_000) == "x" * REASON_CHARS


def test_a_lone_surrogate_becomes_a_question_mark() -> None:
    assert cleaned("not \ud800 a text") == "not ? a text"


@given(st.text(st.characters(codec=None)))
def test_every_reason_can_be_written_and_is_kept_where_it_can(text: str) -> None:
    found = cleaned(text)

    assert len(found) <= REASON_CHARS
    assert found.encode().decode() == found
    assert cleaned(found) == found
    assert all(now in (was, "?") for was, now in zip(text, found, strict=False))
