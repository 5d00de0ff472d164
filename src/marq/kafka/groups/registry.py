"""Which ordered groups there are: recorded in the catalog, with the version that made their queue.

A record is written before a group begins to copy and removed when nothing of it is left, so what
trims queues need not see a group's topics to spare what it has not read. A group whose queue was
deleted, or made again since, is a leftover: it is nobody's, and whoever finds it removes it.

Groups of earlier releases have no record until the tracker has seen them.
"""

from __future__ import annotations

from marq.core.catalog.definitions import Catalog
from marq.core.names import Space
from marq.groups import names as naming
from marq.groups.names import GroupNames
from marq.kafka.cluster.admin import Admin
from marq.kafka.cluster.catalog_log import CatalogLog


class Registry:
    """The groups of a cluster, by the catalog and by the topics there are."""

    def __init__(self, log: CatalogLog, admin: Admin, space: Space) -> None:
        self._log = log
        self._space = space
        self._admin = admin

    def catalog(self) -> Catalog:
        """The catalog as it is now."""
        return self._log.read()

    def all(self) -> list[GroupNames]:
        """Every group that is recorded, or seen and of a queue of ours, and no leftovers."""
        catalog = self.catalog()
        recorded = {GroupNames(*each, self._space) for each in catalog.groups()}
        return sorted(recorded | {each for each in self.seen() if _is_ours(catalog, each)})

    def seen(self) -> set[GroupNames]:
        """The groups whose topics are there, of whatever namespace."""
        found = (naming.of_topic(topic, self._space) for topic in self._admin.topics())
        return {each for each in found if each is not None}

    def is_ours(self, names: GroupNames) -> bool:
        """Whether what is there under this name is one of our queue's."""
        return _is_ours(self.catalog(), names)

    def without_topics(self, catalog: Catalog) -> set[GroupNames]:
        """Groups that are recorded, and have no control log. One nobody may see is not among
        them."""
        recorded = [GroupNames(*each, self._space) for each in catalog.groups()]
        by_topic = {
            each.control: each for each in recorded if not catalog.is_newer_group(*each.place)
        }
        there = self._admin.describe_each(by_topic)
        return {names for topic, names in by_topic.items() if there[topic] is None}

    def is_leftover(self, names: GroupNames) -> bool:
        """Whether what is there under this name is an earlier queue's."""
        return self.catalog().is_leftover(*names.place)

    def refuse_newer(self, names: GroupNames) -> None:
        """Raise if only a newer release understands what belongs to this group."""
        self.catalog().refuse_newer_group(*names.place)

    def record(self, names: GroupNames) -> None:
        """Say that the queue has this group."""
        while not (catalog := self.catalog()).has_group(*names.place):
            self._log.append(catalog.record_group(*names.place))

    def clear(self, names: GroupNames) -> None:
        """Remove all that is there of a group. First a record says that it is nobody's: whoever
        finds what is left of it after a crash goes on."""
        while (catalog := self.catalog()).has_group(*names.place):
            self._log.append(catalog.give_up_group(*names.place))
        self._admin.delete(names.control, names.leases, names.base)
        for group in (names.offsets, names.copied):
            self._admin.forget_group(group)
        while (catalog := self.catalog()).is_leftover(*names.place):
            self._log.append(catalog.forget_group(*names.place))


def _is_ours(catalog: Catalog, names: GroupNames) -> bool:
    return catalog.made(names.queue) > 0 and not catalog.is_leftover(*names.place)
