"""The note beside a committed offset."""

from __future__ import annotations

import pytest

from marq.kafka.groups.note import Note, parse


def test_a_note_reads_as_it_was_written() -> None:
    assert parse(Note(3, 2).text) == Note(3, 2)


@pytest.mark.parametrize("text", [None, "", "taken:", "taken:1", "taken:x begun:0", "other"])
def test_any_other_text_is_no_note(text: str | None) -> None:
    assert parse(text) == Note(0, 0)


def test_a_partition_is_suspect_when_two_owners_took_it_and_acked_nothing() -> None:
    assert not Note(taken=2).is_suspect
    assert Note(taken=3).is_suspect
