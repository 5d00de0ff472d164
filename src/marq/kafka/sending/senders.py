"""Both ways to send: gathered for a moment with others, or at once."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

from marq.errors import QueueError
from marq.kafka.client.config import Config
from marq.kafka.sending.sender import Sender

FEW = 100
"""So many are sent at once where their sender waits for them; of more, the first requests would be
small and cost more than the wait."""


class Senders:
    """A producer that gathers messages for some milliseconds, and one that lets each go at once.

    Two of them, for a producer cannot do both. What one thread sends stays in order: it goes at
    once only where its sender waits for it, and nothing that was gathered is under way. What many
    threads send at once gathers by itself while requests are under way.
    """

    def __init__(
        self,
        settings: Callable[[float], Config],
        linger_ms: float,
        failed: Callable[[QueueError], None],
    ) -> None:
        self._settings = settings
        """By how long messages are gathered, in milliseconds."""
        self._linger_ms = linger_ms
        self._failed = failed
        self._lock = threading.Lock()
        self._gathering: Sender | None = None
        self._prompt: Sender | None = None

    @property
    def gathering(self) -> Sender:
        """For messages nobody waits for one by one."""
        with self._lock:
            self._gathering = self._gathering or self._made(self._linger_ms)
            return self._gathering

    @property
    def prompt(self) -> Sender:
        """For messages whose sender waits."""
        with self._lock:
            self._prompt = self._prompt or self._made(0)
            return self._prompt

    def _made(self, linger_ms: float) -> Sender:
        return Sender(self._settings(linger_ms), self._failed)

    def at_once(self, number: int) -> Sender:
        """The one for so many messages whose sender waits for all of them."""
        gathers = self._gathering is not None and self._gathering.busy
        return self.gathering if gathers or number > FEW else self.prompt

    @property
    def _all(self) -> list[Sender]:
        return [each for each in (self._gathering, self._prompt) if each is not None]

    def flush(self, timeout_s: float | None) -> None:
        """Wait until everything sent so far is durable."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        for each in self._all:
            each.flush(None if until is None else max(0.0, until - time.monotonic()))

    def tell(self) -> None:
        """Raise what was refused, and nobody has asked for; once."""
        with contextlib.ExitStack() as each_of_them:
            for each in self._all:
                each_of_them.callback(each.tell)

    def unsent(self) -> int:
        """Messages of which the log is not known to know."""
        return sum(each.unsent() for each in self._all)

    def forked(self) -> None:
        """This is a child: what was sent is the parent's to hear of."""
        for each in self._all:
            each.forked()

    def close(self) -> None:
        """Send what is left, as long as that takes seconds, and stop; what is not in the log then
        is an error."""
        with contextlib.ExitStack() as each_of_them:
            for each in self._all:
                each_of_them.callback(each.close)
