"""Lets a suspect run alone in its process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_LOOK_S = 0.1


class Gate:
    """All that handles messages in a process goes through one: to close it is to be alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self.closed = False
        """Whether someone is, or wants to be, alone. Read without a lock: who is inside may finish
        what was begun, and look again then."""

    def enter(self) -> bool:
        """Go inside; waits a moment where it is closed, False if it still is."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self.closed, _LOOK_S):
                return False
            self._inside += 1
            return True

    def bring_in(self) -> None:
        """Count one more, begun by someone inside."""
        with self._changed:
            self._inside += 1

    def leave(self) -> None:
        with self._changed:
            self._inside -= 1
            if self.closed:
                self._changed.notify_all()

    def close(self, patience_s: float, no_longer: Callable[[], bool]) -> bool:
        """From inside: let nobody in, and wait until all others are out.

        Not for ever: after a while it runs beside them. False: someone else has closed it.
        """
        with self._changed:
            if self.closed:
                return False
            self.closed = True
            until = time.monotonic() + patience_s
            while self._inside > 1 and not no_longer() and time.monotonic() < until:
                self._changed.wait(_LOOK_S)
            return True

    def open(self) -> None:
        with self._changed:
            self.closed = False
            self._changed.notify_all()
