"""Errors of something done again and again: logged when they begin, and then once in a while."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator

from marq.errors import QueueError

log = logging.getLogger("marq.tracker")

AGAIN_S = 60.0
"""How long the same trouble is not logged again."""


class Troubles:
    """Failures by what they keep from being done. One of them never keeps the others from it."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._told: dict[str, tuple[str, float]] = {}
        self.number = 0
        """How many there were."""

    @contextlib.contextmanager
    def kept_apart(self, what: str) -> Iterator[None]:
        """Run what is inside; if it fails, say so and go on."""
        try:
            yield
        except Exception as error:
            self.tell(what, error)
        else:
            self._told.pop(what, None)

    def tell(self, what: str, error: Exception) -> None:
        """Count it, and log it: the same one once a minute at most."""
        self.number += 1
        kind, now = type(error).__name__, self._now()
        before, told_at = self._told.get(what, ("", 0.0))
        if kind == before and now < told_at + AGAIN_S:
            return
        self._told[what] = (kind, now)
        # What the cluster says needs no traceback, what nobody thought of does.
        trace = None if isinstance(error, QueueError) else error
        log.warning(
            "failed, going on without",
            extra={"what": what, "error": f"{kind}: {error}"},
            exc_info=trace,
        )
