"""The topics of all queues at one moment: which they are, and where they start and end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from marq.core.catalog.definitions import Catalog
from marq.core.fold.counting import SourceCount
from marq.core.subject import Subject
from marq.errors import QueueError
from marq.kafka.cluster.admin import Admin
from marq.kafka.cluster.troubles import Troubles
from marq.kafka.tracker.holes import SourceId
from marq.kafka.tracker.queue_counts import Topic


class _Known(NamedTuple):
    """What was found under a name."""

    version: int
    """Of the queue's entry: a queue made again has another one, a topic that others made again has
    not."""
    topic_id: bytes
    partitions: int


class QueueTopics:
    """Looks them up; what cannot be told of one keeps nothing from the others."""

    def __init__(self, admin: Admin, troubles: Troubles) -> None:
        self._admin = admin
        self._troubles = troubles
        self._known: dict[str, _Known] = {}

    def look(
        self, catalog: Catalog, sources: Mapping[SourceId, SourceCount], anew: bool
    ) -> dict[str, Topic]:
        """Those of the catalog that are there; `anew` asks for every id, whatever is known."""
        queues = [queue for queue, _ in catalog.definitions()]
        wanted = [name for queue in queues for name in (queue, Subject(queue).letters)]
        self._identify(catalog, wanted, anew)
        # Not what the entry says: an operator may have added some, to which senders send then.
        numbers = {n: self._known[n].partitions for n in wanted if n in self._known}
        spans = self._admin.spans(numbers)
        found: dict[str, Topic] = {}
        for name, partitions in numbers.items():
            places = [(name, number) for number in range(partitions)]
            if any(place not in spans for place in places):
                error = QueueError("nobody tells where all its partitions start and end")
                self._troubles.tell(f"looking at {name!r}", error)
                continue
            topic_id = self._known[name].topic_id
            counts = [sources.get((topic_id, number)) for number in range(partitions)]
            found[name] = Topic(name, topic_id, [spans[place] for place in places], counts)
        return found

    def _identify(self, catalog: Catalog, wanted: Iterable[str], anew: bool) -> None:
        versions = {name: catalog.version("queue", Subject(name).queue) for name in wanted}
        self._known = {
            name: known
            for name, known in self._known.items()
            if not anew and versions.get(name) == known.version
        }
        for name, about in self._admin.describe_each(versions.keys() - self._known.keys()).items():
            if isinstance(about, tuple):
                self._known[name] = _Known(versions[name], *about)
            elif about is not None:
                self._troubles.tell(f"looking at {name!r}", about)
            elif anew:  # the catalog was read to its end: it is not that it was just deleted
                self._troubles.tell(f"looking at {name!r}", QueueError("there is no such topic"))
