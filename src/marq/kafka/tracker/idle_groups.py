"""Keeps what idle groups have committed: a cluster forgets the offsets of a group that has had no
member for seven days."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from marq.core.catalog.definitions import QueueDefinition
from marq.core.names import Space
from marq.kafka.cluster.admin import Admin

log = logging.getLogger("marq.tracker")

EVERY_S = 86_400.0
_PAUSE_S = 0.5
_SHARE = 4
"""All are seen to within this part of the time. Each costs connections: they are spread over it."""


class IdleGroups:
    """Commits again what groups without members have committed, once a day."""

    def __init__(self, admin: Admin, space: Space) -> None:
        self._admin = admin
        self._space = space
        self._seen_at: dict[str, float] = {}
        self._next_at = 0.0

    def keep_one(self, definitions: Mapping[str, QueueDefinition]) -> None:
        """See to the next queue whose turn it is: one at a time, for each takes a moment."""
        now = time.monotonic()
        if now < self._next_at:
            return
        self._next_at = now + max(_PAUSE_S, EVERY_S / _SHARE / (1 + len(definitions)))
        self._seen_at = {q: at for q, at in self._seen_at.items() if q in definitions}
        for queue, definition in definitions.items():
            if now >= self._seen_at.get(queue, now - EVERY_S) + EVERY_S:
                self._seen_at[queue] = now
                return self.keep(queue, definition.partitions)

    def keep(self, queue: str, partitions: int) -> None:
        """Commit again what the queue's group has committed, unless someone is moving it.

        The cluster itself refuses it while the group has members. One who came, committed and went
        between the look and the write would be set back: so what is written has not moved between
        two looks, the later one just before.
        """
        group = self._space.consumer_group(queue)
        offsets = self._admin.committed(group, queue, partitions)
        if any(offset < 0 for offset in offsets):
            return
        if offsets != self._admin.committed(group, queue, partitions):
            return
        if self._admin.commit_idle(group, queue, offsets):
            after = self._admin.committed(group, queue, partitions)
            if any(now < before for now, before in zip(after, offsets, strict=True)):
                log.warning("offsets of an idle group went back", extra={"queue": queue})
