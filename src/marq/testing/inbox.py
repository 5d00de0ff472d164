"""Handing messages of the memory broker out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from marq.backend import Handing
from marq.message import Delivery
from marq.testing.delivery import MemoryDelivery

if TYPE_CHECKING:
    from marq.testing.memory import Memory

_LOOK_AGAIN_S = 3_600.0


class MemoryInbox:
    """One consumer of a queue."""

    def __init__(self, memory: Memory, queue: str) -> None:
        self._memory = memory
        self._queue = queue
        self._closed = False

    def take(self, limit: int, wait_s: float, handing: Handing) -> list[Delivery[Any]]:
        until = time.monotonic() + wait_s
        with self._memory.changed:
            while not self._closed:
                found = self._take_now(limit, handing)
                left_s = until - time.monotonic()
                if found or left_s <= 0:
                    return found
                self._memory.changed.wait(min(left_s, self._next_s()))
        return []

    def _take_now(self, limit: int, handing: Handing) -> list[Delivery[Any]]:
        memory = self._memory
        memory.tracker.catch_up(memory.clock.now_ms())
        definition = memory.definition(self._queue)
        if definition.paused:
            return []
        lease_ms = definition.lease_ms if handing.lease_ms is None else handing.lease_ms
        group = memory.group(self._queue)
        limit = limit if handing.at_once is None else min(limit, handing.at_once)
        tickets = group.hand_out(limit, memory.log.now_ms, definition, handing.alone)
        group.begin(tickets, lease_ms, handing.kept_alive)
        return [MemoryDelivery(memory, group, ticket, handing.wanted) for ticket in tickets]

    def suspects(self) -> int:
        return self._memory.group(self._queue).suspects

    def _next_s(self) -> float:
        """How long until something happens by itself; a frozen clock only moves with a notice."""
        memory = self._memory
        if not memory.clock.running:
            return _LOOK_AGAIN_S
        moments = (memory.tracker.next_ms(), memory.group(self._queue).next_due_ms())
        at_ms = min((at_ms for at_ms in moments if at_ms is not None), default=None)
        if at_ms is None:
            return _LOOK_AGAIN_S
        return max(0.001, (at_ms - memory.clock.now_ms()) / 1_000)

    def close(self) -> None:
        self._closed = True
        self._memory.close()
