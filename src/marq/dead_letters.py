"""The dead letters of a queue: look at them, send them back, or discard them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Protocol

from marq.backend import Backend
from marq.core import names
from marq.core.messages.stored import Stored
from marq.errors import ConfigError
from marq.message import DeadLetter
from marq.queue import Queue

Where = Callable[[DeadLetter], bool]
Progress = Callable[[int], object]
"""Told how many are done so far."""


class Stop(Protocol):
    """What stops a long redrive: a `threading.Event`, or the like."""

    def is_set(self) -> bool: ...


_ALL = 1 << 40
_AT_ONCE = 100
"""Letters that are under way together: what a crash in between can send twice."""
_STEP_S = 0.1
"""How long a pause that keeps the rate is about."""


class DeadLetters(Queue[Any]):
    """A queue of what could not be delivered. Its messages have no attempts to run out of."""

    def __init__(self, backend: Backend, queue: str) -> None:
        super().__init__(backend, names.dead_letters(queue))

    def list(self, limit: int = 100, where: Where | None = None) -> list[DeadLetter]:
        """The oldest dead letters, those `where` is true of; nothing changes."""
        return [DeadLetter(stored) for stored in self._chosen(_limit(limit), where)]

    def redrive(
        self,
        limit: int | None = None,
        rate: float | None = None,
        where: Where | None = None,
        *,
        progress: Progress | None = None,
        stop: Stop | None = None,
    ) -> int:
        """Send dead letters to whoever had them again, oldest first: attempts from 1, history kept.

        At most `limit` of them, at most `rate` a second, those `where` is true of. Returns how
        many. One that dies again meanwhile is not sent twice, nor one that someone else redrives.
        `progress` is told how many are done so far; once `stop` is set it returns after those in
        hand.
        """
        if rate is not None and not (isinstance(rate, int | float) and rate > 0):
            raise ConfigError(f"rate must be above 0 messages a second, not {rate!r}")
        chunks = _paced(_chunks(self._chosen(limit, where, stop), rate), rate, stop)
        return _told(self._backend.redrive(chunks), progress)

    def discard(
        self,
        limit: int | None = None,
        where: Where | None = None,
        *,
        progress: Progress | None = None,
        stop: Stop | None = None,
    ) -> int:
        """Remove dead letters for good, oldest first; returns how many. `progress` and `stop` as
        for redrive."""
        chunks = _chunks(self._chosen(limit, where, stop))
        return _told(self._backend.discard(chunks), progress)

    def purge(self) -> None:
        """Discard them all."""
        self.discard()

    def _alter(self, **fields: Any) -> None:
        raise ConfigError("dead letters have no options and are never paused: they only wait")

    def _chosen(
        self, limit: int | None, where: Where | None, stop: Stop | None = None
    ) -> Iterator[Stored]:
        if where is not None and not callable(where):
            raise ConfigError(f"where must be a function of a dead letter, not {where!r}")
        left = _ALL if limit is None else _limit(limit)
        for stored in self._backend.peek(self.name, _ALL if where else left):
            if not left or _is_stopped(stop):
                return
            if where is None or where(DeadLetter(stored)):
                left -= 1
                yield stored


def _chunks(chosen: Iterator[Stored], rate: float | None = None) -> Iterator[list[Stored]]:
    """By hundreds, or by what a slower rate lets pass in a step."""
    size = _AT_ONCE if rate is None else max(1, int(min(rate, _AT_ONCE / _STEP_S) * _STEP_S))
    while letters := list(islice(chosen, size)):
        yield letters


def _paced(
    chunks: Iterator[list[Stored]], rate: float | None, stop: Stop | None
) -> Iterator[list[Stored]]:
    pause_s = 0.0
    for letters in chunks:
        if not _rested(pause_s, stop):
            return
        yield letters
        pause_s = 0.0 if rate is None else len(letters) / rate


def _rested(pause_s: float, stop: Stop | None) -> bool:
    """Whether it was not stopped in the pause. Not by the event's own wait: a signal handler that
    sets an event while the main thread waits for it would wait for that thread."""
    until = time.monotonic() + pause_s
    while (left_s := until - time.monotonic()) > 0:
        if _is_stopped(stop):
            return False
        time.sleep(min(left_s, _STEP_S))
    return True


def _is_stopped(stop: Stop | None) -> bool:
    return stop is not None and stop.is_set()


def _told(counts: Iterator[int], progress: Progress | None) -> int:
    done = 0
    for count in counts:
        done += count
        if progress is not None:
            progress(done)
    return done


def _limit(limit: int) -> int:
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise ConfigError(f"limit must be a whole number from 1 up, not {limit!r}")
    return limit
