"""The one place that starts threads: none of them ends in silence."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Thread

log = logging.getLogger("marq.threads")

OnFailure = Callable[[BaseException], object]
"""Told what a thread ended by: whoever owns it sees to it that someone sees the error."""


def make(run: Callable[[], object], name: str, failed: OnFailure) -> Thread:
    """A background thread, not yet started.

    One that ends by an exception logs it and tells its owner. A daemon: a handler that hangs, or
    a broker that is away, must not keep the process.
    """

    def guarded() -> None:
        try:
            run()
        except BaseException as error:  # whatever it is: nobody else would hear of it
            failed(error)
            log.error("thread died", extra={"which": name}, exc_info=error)

    return Thread(target=guarded, name=name, daemon=True)


def start(run: Callable[[], object], name: str, failed: OnFailure) -> Thread:
    """The same, started."""
    thread = make(run, name, failed)
    thread.start()
    return thread
