"""The helm: who uses a queue's consumer now. One thread at a time; takers before the pump's own."""

from __future__ import annotations

import threading
import time

AWAY_S = 0.1
"""How long the pump's own thread stays away once a taker has come by."""
PATIENCE_S = 10.0
"""How long it waits for whoever has it: a rebalance takes a few seconds."""


class Helm:
    """A taker who comes by takes it if it is free, and never waits for it. So a fast consumer is
    one thread: with two, they passed the interpreter to and fro, and each message cost half as
    much again. The pump's own thread has it as long as no taker comes by.

    It may be interrupted anywhere (Ctrl-C in a loop over `receive`): whoever leaves before it has
    said that it is done, has left something half done.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Taken by itself and not by its condition: an interrupt finds no step between taking it
        and being inside."""
        self._changed = threading.Condition(self._lock)
        self._who = 0
        """The thread that has it; 0: nobody."""
        self._passed = 0.0
        """When a taker came by last."""
        self._done = True
        self.half_done = False
        """Whether someone was interrupted at it."""

    def take_in_passing(self) -> bool:
        """By a taker: whether it was free, and is the taker's now."""
        self.leave()  # what was interrupted in the very act of leaving
        with self._lock:
            if self.half_done:
                return False
            self._passed = time.monotonic()
            if self._who:
                return False
            self._take()
            return True

    def take(self, timeout_s: float) -> bool:
        """By the pump's own thread: wait until no taker comes by any more, or one calls."""
        until = time.monotonic() + timeout_s
        with self._lock:
            while self._who or (away := self._passed + AWAY_S - time.monotonic()) > 0:
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left if self._who else min(left, away))
            self._take()
            return True

    def take_over(self) -> None:
        """By the pump's own thread: wait until whoever has it is done. Not for ever: he may have
        been interrupted in the very act of leaving."""
        with self._lock:
            self._changed.wait_for(lambda: not self._who or self._is_mine, PATIENCE_S)
            self._take()

    @property
    def _is_mine(self) -> bool:
        return self._who == threading.get_ident()

    def _take(self) -> None:
        self._who, self._done = threading.get_ident(), False

    def leave_to_takers(self) -> None:
        """By the pump's own thread: stay away for a while, as if one had come by."""
        with self._lock:
            self._passed = time.monotonic()

    def call(self) -> None:
        """Have the pump's own thread come at once: the taker waits for it."""
        with self._lock:
            self._passed = 0.0
            self._changed.notify_all()

    def done(self) -> None:
        """Nothing is left half done."""
        if self._is_mine:
            self._done = True

    def leave(self) -> None:
        """Let others have it; harmless for who has it not."""
        if self._is_mine:
            with self._lock:
                self.half_done = self.half_done or not self._done
                self._who = 0
                self._changed.notify_all()
