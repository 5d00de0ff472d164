"""What the tracker does for the records of ordered groups, now and then."""

from __future__ import annotations

import logging
import time

from marq.errors import QueueError
from marq.groups.names import GroupNames
from marq.kafka.access import Access
from marq.kafka.groups.manager import Manager

log = logging.getLogger("marq.tracker")

LEFT_S = 60.0
"""How long a leftover must have been one, or a group without its control log: an earlier release
deletes no records. By then whoever deletes it at this moment is through, and
nothing is taken away from a group that is made again under its name."""


class GroupKeeping:
    """Records groups of earlier releases, and removes what is left of deleted ones."""

    def __init__(self, access: Access) -> None:
        self._manager = Manager(access)
        self._registry = self._manager.registry
        self._space = access.space
        self._since: dict[tuple[GroupNames, int], float] = {}
        """By group and version of its record, since when it has been a leftover."""

    def keep(self, now_ms: int) -> None:
        """One round."""
        self._record_older()
        self._clear_leftovers(time.monotonic())

    def _record_older(self) -> None:
        catalog, seen = self._registry.catalog(), self._registry.seen()
        for names in seen:
            known = catalog.knows_group(*names.place) or not catalog.made(names.queue)
            # Its control log says whether it was made, or is being deleted.
            if not known and self._manager.table(names) is not None:
                self._registry.record(names)

    def _clear_leftovers(self, now: float) -> None:
        catalog = self._registry.catalog()
        gone = self._registry.without_topics(catalog)
        left = {GroupNames(*each, self._space) for each in catalog.leftover_groups()} | gone
        found = {(names, catalog.group_version(*names.place)) for names in left}
        self._since = {each: self._since.get(each, now) for each in found}
        for (names, _), since in self._since.items():
            if now >= since + LEFT_S:
                self._clear(names)

    def _clear(self, names: GroupNames) -> None:
        """One that cannot be removed now keeps no other from it."""
        try:
            self._manager.delete(names)
        except QueueError as error:
            about = {"queue": names.queue, "group": names.group, "error": str(error)}
            log.info("what is left of a group stays for now", extra=about)
