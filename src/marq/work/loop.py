"""The event loop that a queue's async handlers run on."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from marq import threads
from marq.work.job import Job

_CLOSE_S = 5


class Loop:
    """One event loop in a thread, for all async handlers of a queue."""

    def __init__(self, failed: threads.OnFailure) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threads.start(self._loop.run_forever, "marq-loop", failed)

    def submit(self, job: Job, running: Coroutine[Any, Any, None]) -> None:
        """Start it; the job can be interrupted from now on."""
        job.cancel = asyncio.run_coroutine_threadsafe(running, self._loop).cancel

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_S)
        if not self._thread.is_alive():
            self._loop.close()
