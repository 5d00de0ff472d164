"""Which dead letters are redriven or discarded, in what chunks, and how fast."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Protocol

from marq.core.messages.stored import Stored
from marq.errors import ConfigError
from marq.message import DeadLetter

Where = Callable[[DeadLetter], bool]
OnProgress = Callable[[int], object]
"""Called with how many are done so far."""


class Stop(Protocol):
    """What stops a long redrive: a `threading.Event`, or the like."""

    def is_set(self) -> bool: ...


_AT_ONCE = 100
"""Letters that are under way together: what a crash in between can send twice."""
_STEP_S = 0.1
"""How long a pause that keeps the rate is about."""


def refuse_unless_callable(where: object) -> None:
    if where is not None and not callable(where):
        raise ConfigError(f"where must be a function of a dead letter, not {where!r}")


def chosen(
    letters: Iterator[Stored], limit: int | None, where: Where | None, stop: Stop | None = None
) -> Iterator[Stored]:
    """At most `limit` of those that `where` is true of, until it is stopped."""
    left = limit
    for stored in letters:
        if left == 0 or _is_stopped(stop):
            return
        if where is None or where(DeadLetter(stored)):
            left = None if left is None else left - 1
            yield stored


def chunks(letters: Iterator[Stored], rate: float | None = None) -> Iterator[list[Stored]]:
    """Chunks of a hundred, or of what a slower rate lets pass in a step."""
    size = _AT_ONCE if rate is None else max(1, int(min(rate, _AT_ONCE / _STEP_S) * _STEP_S))
    while chunk := list(islice(letters, size)):
        yield chunk


def paced(
    chunks: Iterator[list[Stored]], rate: float | None, stop: Stop | None
) -> Iterator[list[Stored]]:
    """The chunks, at most `rate` letters a second."""
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


def counted(counts: Iterator[int], progress: OnProgress | None) -> int:
    """How many were done in all."""
    done = 0
    for count in counts:
        done += count
        if progress is not None:
            progress(done)
    return done


def checked(limit: int) -> int:
    """The limit; `ConfigError` if it is no number from 1 up."""
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise ConfigError(f"limit must be a whole number from 1 up, not {limit!r}")
    return limit
