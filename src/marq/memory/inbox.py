"""Handing messages of the memory broker out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from marq.backend import Handing
from marq.memory.delivery import MemoryDelivery
from marq.memory.shared import Shared
from marq.message import Delivery

_LOOK_AGAIN_S = 3_600.0


class MemoryInbox:
    """One consumer of a queue."""

    def __init__(self, shared: Shared, queue: str) -> None:
        self._shared = shared
        self._queue = queue
        self._closed = False

    def take(self, limit: int, wait_s: float, handing: Handing) -> list[Delivery[Any]]:
        until = time.monotonic() + wait_s
        with self._shared.changed:
            while not self._closed:
                found = self._take_now(limit, handing)
                left_s = until - time.monotonic()
                if found or left_s <= 0:
                    return found
                self._shared.changed.wait(min(left_s, self._next_s()))
        return []

    def _take_now(self, limit: int, handing: Handing) -> list[Delivery[Any]]:
        shared = self._shared
        shared.tracker.catch_up(shared.clock.now_ms())
        definition = shared.definition(self._queue)
        if definition.paused:
            return []
        lease_ms = definition.lease_ms if handing.lease_ms is None else handing.lease_ms
        reader = shared.reader(self._queue)
        limit = limit if handing.at_once is None else min(limit, handing.at_once)
        tickets = reader.hand_out(limit, shared.log.now_ms, definition, handing.alone)
        reader.begin(tickets, lease_ms, handing.kept_alive)
        return [MemoryDelivery(shared, reader, ticket, handing.wanted) for ticket in tickets]

    def at_hand(self, handing: Handing) -> Iterator[Delivery[Any]]:
        return iter(())

    def suspects(self) -> int:
        return self._shared.reader(self._queue).suspects

    def _next_s(self) -> float:
        """How long until something happens by itself; a frozen clock only moves with a notice."""
        shared = self._shared
        if not shared.clock.running:
            return _LOOK_AGAIN_S
        moments = (shared.tracker.next_ms(), shared.reader(self._queue).next_due_ms())
        at_ms = min((at_ms for at_ms in moments if at_ms is not None), default=None)
        if at_ms is None:
            return _LOOK_AGAIN_S
        return max(0.001, (at_ms - shared.clock.now_ms()) / 1_000)

    def close(self) -> None:
        self._closed = True
        self._shared.wake()
