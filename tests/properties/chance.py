"""Chance from bytes: schedules that hypothesis draws fast and shrinks to almost nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Chance:
    """Every choice takes one byte; a zero byte, and the end, is always the first choice."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def left(self) -> bool:
        return self._at < len(self._data)

    def below(self, count: int) -> int:
        self._at += 1
        return self._data[self._at - 1] % count if self._at <= len(self._data) else 0

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def some(self, choices: Sequence[T]) -> list[T]:
        """Any of them, each taken or not; never none if there is one."""
        taken = [choice for choice in choices if self.below(2)]
        return taken or list(choices[:1])


def chances(longest: int) -> st.SearchStrategy[Chance]:
    """Schedules of up to so many choices, short and long ones alike."""
    sizes = st.integers(0, longest)
    return sizes.flatmap(lambda size: st.binary(min_size=size, max_size=size)).map(Chance)
