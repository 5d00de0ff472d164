"""A load for ordered groups, and what must be true when it is over."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import marq
from tests.e2e.groups_process import Cast, check_begun, check_order
from tests.e2e.kafka_process import eventually


class Load:
    """Sends numbered messages of some keys until it is stopped."""

    def __init__(self, queue: marq.Queue[Any], keys: int = 8, pause_s: float = 0.05) -> None:
        self.sent: Counter[str] = Counter()
        self._queue = queue
        self._keys = keys
        self._pause_s = pause_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        while not self._stopping.wait(self._pause_s):
            for number in range(self._keys):
                key = f"k{number}"
                self._queue.send_nowait(f"{key}-{self.sent[key]}", key=key)
                self.sent[key] += 1

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._queue.flush()

    @property
    def total(self) -> int:
        return self.sent.total()


def finish(cast: Cast, load: Load) -> None:
    """Everything sent is acked, once and in order."""
    load.stop()
    while (settled := len(cast.acked() | cast.untold())) < load.total:
        # However slow the machine is: it must go on.
        cast.wait_until(lambda before=settled: len(cast.acked() | cast.untold()) > before)  # type: ignore[misc]
    assert eventually(lambda: not sum(cast.group.info().waiting))
    check_order(cast, load.sent)
    for member in cast.members:
        check_begun(member)
