"""A sender that never stops while a test does its worst."""

from __future__ import annotations

import threading
from typing import Any, Self

import marq
from tests.e2e.kafka_process import Crew, eventually


class Load:
    """Sends without end, in a thread of its own; a context manager that stops it."""

    def __init__(self, queue: marq.Queue[Any]) -> None:
        self._queue = queue
        self.sent: set[str] = set()
        self.failed: list[BaseException] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def _send(self) -> None:
        try:
            while not self._stopping.wait(0.02):
                self.sent.update(sent.message_id for sent in self._queue.send_many([b"x"] * 5))
        except BaseException as error:
            self.failed.append(error)

    def goes_on(self, crew: Crew) -> bool:
        """Whether messages are sent and acked from now on."""
        sent, acked = len(self.sent), len(crew.ids("acked"))
        return eventually(
            lambda: len(self.sent) > sent + 50 and len(crew.ids("acked")) > acked + 50, 120
        )

    def stop(self) -> None:
        """Send no more; twice is harmless."""
        self._stopping.set()
        self._thread.join()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        assert self.failed == []
