"""A lane: everything of this process that goes to one markers partition."""

from __future__ import annotations

import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from marq.kafka.leasing.handout import Handout
from marq.kafka.leasing.live import LiveClaim

if TYPE_CHECKING:
    from marq.kafka.marking.markers import Markers


class Lane:
    """Everything of this process that goes to one markers partition."""

    def __init__(self, partition: int, markers: Markers) -> None:
        self.partition = partition
        self.waiting = markers.waiting
        self.wake = markers._dirty.set
        self.flush = partial(markers.flush_lane, self)
        self.beat_within = markers.beat_within
        self.refused = markers.refused
        self.clock = markers.clock
        self.lock = threading.Lock()
        self.dirty: deque[Handout] = deque()
        self.claims: dict[int, LiveClaim] = {}
        """Committed claims with something open, by sequence."""
        self.kept: set[Handout] = set()

    def forget_lapsed(self, now_ms: int) -> None:
        """Let go of claims whose messages were all let lapse; the lock is held."""
        for live in [live for live in self.claims.values() if live.has_lapsed(now_ms)]:
            del self.claims[live.claim.id.sequence]
