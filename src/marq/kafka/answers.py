"""Receipts on Kafka: light objects that delivery reports fill in."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Waiting:
    """Where threads wait for reports: one for all receipts, notified only if someone waits."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._waiters = 0

    def answered(self) -> None:
        """Some receipt was filled in."""
        if self._waiters:
            with self._condition:
                self._condition.notify_all()

    def wait_for(self, receipt: Answer[Any], timeout: float | None) -> None:
        until = None if timeout is None else time.monotonic() + timeout
        with self._condition:
            self._waiters += 1
            try:
                while not receipt.done():
                    left = None if until is None else until - time.monotonic()
                    if left is not None and left <= 0:
                        raise TimeoutError("the log has not answered yet")
                    # Bounded: a report between the check of the waiters and this wait is not lost.
                    self._condition.wait(0.05 if left is None else min(left, 0.05))
            finally:
                self._waiters -= 1


class Answer(Generic[T]):
    """A receipt: filled in once, by a report or an error."""

    __slots__ = ("_error", "_filled", "_value", "_waiting")

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting
        self._filled = False
        self._value: T | None = None
        self._error: Exception | None = None

    def done(self) -> bool:
        return self._filled

    def fill(self, value: T) -> None:
        self._value = value
        self._filled = True
        self._waiting.answered()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._filled = True
        self._waiting.answered()

    def result(self, timeout: float | None = None) -> T:
        if not self._filled:
            self._waiting.wait_for(self, timeout)
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def __await__(self) -> Generator[Any, None, T]:
        if not self._filled:
            yield from asyncio.to_thread(self._waiting.wait_for, self, None).__await__()
        return self.result()
