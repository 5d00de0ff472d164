"""An event that a signal handler may set."""

from __future__ import annotations

import contextlib
import queue


class Stopping:
    """Set once, for good.

    As `threading.Event`, but a signal handler may set it: it runs in the midst of what the main
    thread does, perhaps while that holds the event's own lock, and would wait for it for ever.
    `SimpleQueue.put` alone is made for that.
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        self._queue.put(None)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set; False if it is not in time."""
        if not self._set:
            with contextlib.suppress(queue.Empty):
                self._queue.get(timeout=timeout)
                self._queue.put(None)  # for the next one who waits
        return self._set
