"""The dead letters of a queue: look at them, send them back, or discard them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from marq.backend import Backend
from marq.core import names
from marq.core.stored import Stored
from marq.errors import ConfigError
from marq.message import DeadLetter
from marq.queue import Queue

Where = Callable[[DeadLetter], bool]
_ALL = 1 << 40


class DeadLetters(Queue[Any]):
    """A queue of what could not be delivered. Its messages have no attempts to run out of."""

    def __init__(self, backend: Backend, queue: str) -> None:
        super().__init__(backend, names.dead_letters(queue))

    def list(self, limit: int = 100, where: Where | None = None) -> list[DeadLetter]:
        """The oldest dead letters, those `where` is true of; nothing changes."""
        return [DeadLetter(stored) for stored in self._chosen(_limit(limit), where)]

    def redrive(
        self, limit: int | None = None, rate: float | None = None, where: Where | None = None
    ) -> int:
        """Send dead letters to their queue again, oldest first: attempts from 1, history kept.

        At most `limit` of them, at most `rate` a second, those `where` is true of. Returns how
        many. One that dies again meanwhile is not sent twice.
        """
        if rate is not None and not (isinstance(rate, int | float) and rate > 0):
            raise ConfigError(f"rate must be above 0 messages a second, not {rate!r}")
        done = 0
        for stored in self._chosen(limit, where):
            if done and rate is not None:
                time.sleep(1 / rate)
            done += self._backend.redrive(stored)
        return done

    def discard(self, limit: int | None = None, where: Where | None = None) -> int:
        """Remove dead letters for good, oldest first; returns how many."""
        return sum(self._backend.discard(stored) for stored in self._chosen(limit, where))

    def purge(self) -> None:
        """Discard them all."""
        self.discard()

    def _alter(self, **fields: Any) -> None:
        raise ConfigError("dead letters have no options and are never paused: they only wait")

    def _chosen(self, limit: int | None, where: Where | None) -> Iterator[Stored]:
        if where is not None and not callable(where):
            raise ConfigError(f"where must be a function of a dead letter, not {where!r}")
        left = _ALL if limit is None else _limit(limit)
        for stored in self._backend.peek(self.name, _ALL if where else left):
            if left and (where is None or where(DeadLetter(stored))):
                left -= 1
                yield stored


def _limit(limit: int) -> int:
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise ConfigError(f"limit must be a whole number from 1 up, not {limit!r}")
    return limit
