"""Giving a message back: its copy first, then its end. A crash in between delivers it twice."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Generator
from typing import Any

from marq.errors import QueueError
from marq.kafka.client.answers import Answer
from marq.kafka.leasing.handout import Handout
from marq.receipt import Receipt

log = logging.getLogger("marq.kafka")


class GivenBack:
    """The receipt of a message that was given back: done when its end is in the log.

    The thread that flushes markers ends it once the copy is in the log, or whoever waits here.
    """

    __slots__ = ("_copy", "_end", "_failed", "_handout", "_index", "_lock")

    def __init__(self, copy: Receipt[Any], handout: Handout, index: int) -> None:
        self._copy = copy
        self._handout = handout
        self._index = index
        self._end: Answer[None] | None = None
        self._failed: QueueError | None = None
        self._lock = threading.Lock()
        handout.desk.copied.append(self)

    def step(self) -> bool:
        """End it if the log has the copy; whether nothing is left to do."""
        with self._lock:
            if self._end is None and self._failed is None and self._copy.done():
                self._end_or_let_go()
            return self._end is not None or self._failed is not None

    def _end_or_let_go(self) -> None:
        try:
            self._copy.result(0)
        except QueueError as error:
            self._failed = error
            self._handout.let_go()  # nobody settles it any more: it comes back by itself
            log.warning("not given back", extra={"error": str(error)})
        else:
            self._end = self._handout.end(self._index)

    def done(self) -> bool:
        return self.step() and (self._end is None or self._end.done())

    def result(self, timeout: float | None = None) -> None:
        until = None if timeout is None else time.monotonic() + timeout
        self._copy.result(timeout)
        left = None if until is None else max(0.0, until - time.monotonic())
        self._ended().result(left)

    def __await__(self) -> Generator[Any, None, None]:
        yield from self._copy.__await__()
        yield from self._ended().__await__()

    def _ended(self) -> Answer[None]:
        self.step()
        if self._failed is not None:
            raise self._failed
        assert self._end is not None, "the copy is in the log"
        return self._end
