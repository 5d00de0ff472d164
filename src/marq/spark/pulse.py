"""Whether the query makes the batches that are due."""

from __future__ import annotations

import time
from collections.abc import Callable

LATE_S = 10.0
"""How late a batch may be, what it takes included. Only batches keep time: meanwhile nothing is
brought back or released."""


class Pulse:
    """What the driver knows of its query; one thread tells, others ask."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._due: float | None = None
        """When the next batch is; None: no query has made one yet, or it has ended."""

    def made(self, rest_s: float = 0.0) -> None:
        """A batch was made, and the next one is due after this rest."""
        self._due = self._now() + rest_s

    def stopped(self) -> None:
        """There is no query that makes batches."""
        self._due = None

    @property
    def beats(self) -> bool:
        """Whether no batch that was due is missing."""
        due = self._due
        return due is not None and self._now() < due + LATE_S
