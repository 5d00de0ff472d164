"""The topics of all queues at one moment: which they are, and where they start and end."""

from __future__ import annotations

from collections.abc import Mapping

from marq.core.catalog.definitions import Catalog
from marq.core.fold.counting import SourceCount
from marq.core.subject import Subject
from marq.errors import QueueError
from marq.kafka.cluster.admin import Admin
from marq.kafka.cluster.troubles import Troubles
from marq.kafka.tracker.holes import SourceId
from marq.kafka.tracker.queue_counts import Topic


class QueueTopics:
    """Looks them up; what cannot be told of one keeps nothing from the others."""

    def __init__(self, admin: Admin, troubles: Troubles) -> None:
        self._admin = admin
        self._troubles = troubles
        self._ids: dict[str, tuple[int, bytes]] = {}
        """By name: the version of the queue's entry, and the topic's id. A queue made again has
        another version; a topic that others made again has not."""

    def look(
        self, catalog: Catalog, sources: Mapping[SourceId, SourceCount], anew: bool
    ) -> dict[str, Topic]:
        """Those of the catalog that are there; `anew` asks for every id, whatever is known."""
        wanted: dict[str, int] = {}
        for queue, definition in catalog.definitions():
            wanted |= {queue: definition.partitions, Subject(queue).letters: 1}
        self._identify(catalog, wanted, anew)
        wanted = {name: number for name, number in wanted.items() if name in self._ids}
        spans = self._admin.spans(wanted)
        found: dict[str, Topic] = {}
        for name, partitions in wanted.items():
            places = [(name, number) for number in range(partitions)]
            if any(place not in spans for place in places):
                error = QueueError("nobody tells where all its partitions start and end")
                self._troubles.tell(f"looking at {name!r}", error)
                continue
            topic_id = self._ids[name][1]
            counts = [sources.get((topic_id, number)) for number in range(partitions)]
            found[name] = Topic(name, topic_id, [spans[place] for place in places], counts)
        return found

    def _identify(self, catalog: Catalog, wanted: Mapping[str, int], anew: bool) -> None:
        versions = {name: catalog.version("queue", Subject(name).queue) for name in wanted}
        self._ids = {
            name: known
            for name, known in self._ids.items()
            if not anew and versions.get(name) == known[0]
        }
        for name, about in self._admin.describe_each(versions.keys() - self._ids.keys()).items():
            if isinstance(about, tuple):
                self._ids[name] = (versions[name], about[0])
            elif about is not None:
                self._troubles.tell(f"looking at {name!r}", about)
            elif anew:  # the catalog was read to its end: it is not that it was just deleted
                self._troubles.tell(f"looking at {name!r}", QueueError("there is no such topic"))
