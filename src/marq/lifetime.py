"""What nobody closes: at the end of the process, or when the broker is no longer referred to, what
was sent and settled is made durable all the same, and what is not is logged."""

from __future__ import annotations

import atexit
import contextlib
import logging
import queue
import weakref
from multiprocessing import util
from typing import Protocol, runtime_checkable

from marq import forks, threads

log = logging.getLogger("marq")

EXIT_S = 10.0
"""How long the end of a process waits for the log."""
_LOOK_S = 1.0


@runtime_checkable
class Lasting(Protocol):
    """A backend whose writes take time."""

    def finish(self, timeout_s: float) -> str:
        """Make durable what was sent and settled; what is not in time, in words."""
        ...

    def in_hands(self) -> bool:
        """Whether someone may still settle what was handed out."""
        ...

    def close(self) -> None: ...


def watch(owner: object, backend: Lasting) -> None:
    """Finish the backend at the end of the process, and close it once its owner is gone."""
    _process.open.add(backend)
    # Not closed there and then: that may happen in the midst of anything, with any lock held.
    weakref.finalize(owner, _abandon, backend).atexit = False
    at_work()


def _abandon(backend: Lasting) -> None:
    _process.abandoned.put(backend)


def over(backend: object) -> None:
    """It was closed in order, and whoever closed it got the errors there were."""
    _process.open.discard(backend)  # type: ignore[arg-type]


def at_work() -> None:
    """This process has something to finish."""
    _process.begin()


class _Process:
    """What one process has to finish."""

    def __init__(self) -> None:
        self.open: weakref.WeakSet[Lasting] = weakref.WeakSet()
        self.forked()
        forks.tell(self)

    def forked(self) -> None:
        self.abandoned: queue.SimpleQueue[Lasting] = queue.SimpleQueue()
        self._begun = False

    def begin(self) -> None:
        if not self._begun:
            self._begun = True
            # A child that multiprocessing forked ends without atexit.
            util.Finalize(None, self.finish, exitpriority=0)
            threads.start(self._close_abandoned, "marq-closer", lambda error: None)

    def finish(self) -> None:
        """Called at the end, when threads still run; perhaps twice."""
        for backend in list(self.open):
            if left := backend.finish(EXIT_S):
                log.error("marq: the process ends and not durable are: %s", left)
                over(backend)  # it had its time: a second look would cost as much again

    def _close_abandoned(self) -> None:
        waiting: list[Lasting] = []
        while True:
            with contextlib.suppress(queue.Empty):
                waiting.append(self.abandoned.get(timeout=_LOOK_S if waiting else None))
            waiting = [backend for backend in waiting if not _closed(backend)]


def _closed(backend: Lasting) -> bool:
    """Whether it could be closed: what is in someone's hands may be acked without the broker."""
    if backend.in_hands():
        return False
    try:
        backend.close()
    except Exception:
        log.exception("a broker that nobody refers to any more was not closed in order")
    return True


_process = _Process()
atexit.register(_process.finish)
