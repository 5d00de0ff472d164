"""Which queues are looked at in a round: those that something happened to, and of the rest some.

To ask where ten thousand partitions end takes seconds, and mostly they end where they did. What a
fold tells of, and what has moved since it was looked at last, is looked at in every round; what is
idle when its turn comes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

SLICE = 500
"""Partitions of idle queues that are looked at in a round."""
MOST = 5_000
"""Partitions that are looked at in a round, whatever happened: what is left comes next, after a
sign of life."""


class QueueFacts(NamedTuple):
    """What is known of a queue without looking at it."""

    version: int
    """Of its definition: one that was altered is counted otherwise, after a purge for example."""
    partitions: int
    """How many are to be looked at, those of its dead letters included."""


class Turns:
    """Remembers what happened, and whose turn it is."""

    def __init__(self) -> None:
        self._happened: dict[str, None] = {}
        self._seen: dict[str, int] = {}
        """The version of each queue, as of when it was looked at."""
        self._idle: deque[str] = deque()

    def tell(self, queues: Iterable[str]) -> None:
        """Something happened to these."""
        self._happened |= dict.fromkeys(queues)

    def choose(self, queues: Mapping[str, QueueFacts]) -> list[str]:
        """Whose turn it is, of all queues there are."""
        self.tell(q for q, known in queues.items() if self._seen.get(q) != known.version)
        self._happened = {queue: None for queue in self._happened if queue in queues}
        chosen: dict[str, None] = {}
        room = MOST
        for queue in self._happened:
            room -= queues[queue].partitions
            if room < 0 and chosen:
                break
            chosen[queue] = None
        self._add_idle(queues, chosen)
        for queue in chosen:
            self._happened.pop(queue, None)
        self._seen = {queue: at for queue, at in self._seen.items() if queue in queues}
        self._seen |= {queue: queues[queue].version for queue in chosen}
        return list(chosen)

    def _add_idle(self, queues: Mapping[str, QueueFacts], chosen: dict[str, None]) -> None:
        """Those that have waited longest."""
        room, some = SLICE, False
        for _ in range(len(queues)):
            if not self._idle:
                self._idle.extend(queues)
            queue = self._idle[0]
            if queue in queues and queue not in chosen:
                room -= queues[queue].partitions
                if room < 0 and some:
                    return
                chosen[queue], some = None, True
            self._idle.popleft()
