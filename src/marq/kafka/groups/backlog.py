"""How much of a group waits: copying stops while it is as much as may."""

from __future__ import annotations

import time

from marq.groups.config import GroupConfig
from marq.groups.names import GroupNames
from marq.kafka.cluster.admin import Admin

_LOOK_S = 0.2
_ANY = 1 << 62


class Backlog:
    """Looks now and then."""

    def __init__(self, admin: Admin, names: GroupNames, config: GroupConfig) -> None:
        self._admin = admin
        self._names = names
        self._config = config
        self._full = False
        self._look_s = 0.0
        self.mean_bytes = 0.0
        """Of a message, lately: what waits is known in messages only."""

    def is_full(self) -> bool:
        """Whether as much waits as may."""
        most, most_bytes = self._config.max_buffered_msgs, self._config.max_buffered_bytes
        if (most or most_bytes) and time.monotonic() > self._look_s:
            self._look_s = time.monotonic() + _LOOK_S
            waiting = self._waiting()
            self._full = waiting >= (most or _ANY) or waiting * self.mean_bytes >= (
                most_bytes or _ANY
            )
        return self._full

    def _waiting(self) -> int:
        partitions = self._config.max_members
        ends = self._admin.ends(self._names.base, partitions)
        done = self._admin.committed(self._names.offsets, self._names.base, partitions)
        return sum(end - max(0, at) for end, at in zip(ends, done, strict=True))
