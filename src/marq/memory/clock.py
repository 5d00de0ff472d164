"""A clock that tests move."""

from __future__ import annotations

import time
from collections.abc import Callable

from marq.core.duration import Duration, milliseconds


class Clock:
    """The memory broker's clock: runs like any other until it is frozen, and can be moved on."""

    def __init__(self) -> None:
        self._base_ms = time.time_ns() // 1_000_000
        self._since = time.monotonic_ns()
        self._running = True
        self.moved: Callable[[], None] = lambda: None
        """Called after every change, so that whoever waits looks again."""

    @property
    def running(self) -> bool:
        return self._running

    def now_ms(self) -> int:
        """Milliseconds since 1970, moved as the test moved them."""
        return self._base_ms + (self._elapsed_ms() if self._running else 0)

    def advance(self, duration: Duration) -> None:
        """Let that much time go by at once; everything due on the way happens in order."""
        self._base_ms += milliseconds(duration, "duration")
        self.moved()

    def freeze(self) -> None:
        """Stop: from here time goes by only in `advance`."""
        self._base_ms, self._running = self.now_ms(), False
        self.moved()

    def resume(self) -> None:
        """Run again from where it stands."""
        if not self._running:
            self._since, self._running = time.monotonic_ns(), True
            self.moved()

    def _elapsed_ms(self) -> int:
        return (time.monotonic_ns() - self._since) // 1_000_000
