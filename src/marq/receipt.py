"""The light results of sending and settling: known now, or when the log has answered."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Receipt(Protocol[T_co]):
    """Something the log will answer: awaitable, or ask it."""

    def done(self) -> bool:
        """Whether the answer is there."""
        ...

    def result(self, timeout: float | None = None) -> T_co:
        """The answer; waits at most `timeout` seconds for it, then raises `TimeoutError`."""
        ...

    def __await__(self) -> Generator[Any, None, T_co]: ...


class Answered(Generic[T]):
    """An answer that is there already."""

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value = value

    def done(self) -> bool:
        return True

    def result(self, timeout: float | None = None) -> T:
        return self._value

    def __await__(self) -> Generator[Any, None, T]:
        return self._value
        yield  # makes this a generator, as __await__ must be
