"""SIGINT and SIGTERM as an event, for commands that must not be torn out of what they do."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from marq.stopping import Stopping


@contextmanager
def stop_asked() -> Iterator[Stopping]:
    """Set by the first SIGINT or SIGTERM; a second one interrupts as usual."""
    asked = Stopping()

    def ask(number: int, _: object) -> None:
        asked.set()
        signal.signal(number, before[signal.Signals(number)])

    wanted = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in wanted}
    for number in wanted:
        signal.signal(number, ask)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
