"""Trims the topics of queues: what has ended goes, an unacked message never, whatever its age.

Records are deleted by the name of a topic, and by the time the request arrives the name may be
another topic's. So what is deleted was counted under an id that the name still has when it is asked
for, just before. And what was appended lately stays, by the word of the partition's own leader, who
deletes, too: whatever lies in a topic made a moment ago is too young.

What remains: a topic would have to be deleted, made again and given as many records as are to go,
all within the milliseconds between those questions and the request. A broker that is away does not
get the request later: it is given up after some seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from marq.core import names
from marq.core.catalog.definitions import Catalog
from marq.core.names import Space
from marq.core.subject import Subject
from marq.errors import QueueError
from marq.groups import names as groups
from marq.groups.names import GroupNames
from marq.kafka.client.seeker import Place
from marq.kafka.cluster.admin import Admin
from marq.kafka.cluster.troubles import Troubles
from marq.kafka.tracker.holes import Holes
from marq.kafka.tracker.queue_counts import Topic

YOUNG_MS = 10_000
"""What was appended within this time stays."""

Ends = dict[Place, int]
"""By partition, below where records may go."""


class Trimming:
    """Trims what the folds say has ended; what fails for one topic keeps no other from it."""

    def __init__(self, admin: Admin, space: Space, holes: Holes, troubles: Troubles) -> None:
        self._admin = admin
        self._space = space
        self._holes = holes
        self._topic_ids: dict[str, bytes] = {}
        """Those that were looked at."""
        self._troubles = troubles

    def forget_others(self, queues: Collection[str]) -> None:
        """Know nothing of queues that are not among these."""
        self._topic_ids = {t: i for t, i in self._topic_ids.items() if names.home(t) in queues}
        self._holes.forget_others(set(self._topic_ids.values()))

    def trim(self, catalog: Catalog, topics: Mapping[str, Topic], now_ms: int) -> None:
        """One round; `topics` were looked up for it, and the catalog was read to its end."""
        self._topic_ids |= {name: topic.topic_id for name, topic in topics.items()}
        with self._troubles.kept_apart("reading what nobody claimed"):
            self._holes.look(topics.values())
        ends = dict(self._ended(topics))
        needed = self._needed_by_groups(catalog, topics)
        kept = self._kept(catalog, ends, now_ms)
        for place in ends:
            ends[place] = min(ends[place], needed.get(place, ends[place]), kept[place])
        starts = {
            (t.name, n): start for t in topics.values() for n, (start, _) in enumerate(t.spans)
        }
        ends = {place: end for place, end in ends.items() if end > starts[place]}
        self._delete(ends, {name: topic.topic_id for name, topic in topics.items()})

    def _ended(self, topics: Mapping[str, Topic]) -> Iterator[tuple[Place, int]]:
        for topic in topics.values():
            for number, (start, _) in enumerate(topic.spans):
                end = self._holes.settled(topic, number)
                if end > start:
                    yield (topic.name, number), end

    def _kept(self, catalog: Catalog, ends: Ends, now_ms: int) -> Ends:
        """From where on records stay although they have ended: for the queue's `retention`, and
        until they can be no other topic's."""
        since: dict[Place, int] = {}
        for place in ends:
            definition = catalog.definition_of(Subject(place[0]))
            retention_ms = definition.retention_ms if definition else 0
            since[place] = now_ms - max(YOUNG_MS, retention_ms)
        first = self._admin.offsets_at(since)
        # None: nothing is so young. And where nobody can tell now, all stays.
        found = {place: first.get(place, 0) for place in since}
        return {place: at if at >= 0 else ends[place] for place, at in found.items()}

    def _needed_by_groups(self, catalog: Catalog, topics: Mapping[str, Topic]) -> Ends:
        """From where on an ordered group still needs its queue: it reads it beside the workers.

        By the catalog and by the topics that are seen: a group made before groups were recorded is
        only seen, and what may not be seen is recorded.
        """
        needed: Ends = {}
        seen = filter(None, (groups.of_topic(topic, self._space) for topic in self._admin.topics()))
        for group in {*seen, *(GroupNames(*each, self._space) for each in catalog.groups())}:
            topic = topics.get(group.queue)
            if topic is None:
                continue
            offsets = [0] * len(topic.spans)  # all of it, if nobody can say how far it is
            with self._troubles.kept_apart(f"asking how far group {group.group!r} is"):
                offsets = self._read_by(group, topic)
            for number, offset in enumerate(offsets):
                place = (topic.name, number)
                needed[place] = min(offset, needed.get(place, offset))
        return needed

    def _read_by(self, group: GroupNames, topic: Topic) -> list[int]:
        """By partition; a group that has committed nothing yet needs all of it."""
        number = len(topic.spans)
        copied = self._admin.committed(group.copied, topic.name, number)
        acked = self._admin.committed(group.offsets, topic.name, number)
        return [max(0, *offsets) for offsets in zip(copied, acked, strict=True)]

    def _delete(self, ends: Ends, ids: Mapping[str, bytes]) -> None:
        same = self._still(ids, {topic for topic, _ in ends})
        tried = {place: end for place, end in ends.items() if place[0] in same}
        for place, error in self._admin.trim_each(tried).items():
            self._troubles.tell(f"trimming {place[0]!r}", error)
        for topic in same - self._still(ids, same):
            error = QueueError("the topic was deleted while it was trimmed")
            self._troubles.tell(f"trimming {topic!r}", error)

    def _still(self, ids: Mapping[str, bytes], topics: set[str]) -> set[str]:
        """Those of these topics that are the ones counted."""
        same = set()
        for topic, about in self._admin.describe_each(topics).items():
            if isinstance(about, QueueError):
                self._troubles.tell(f"trimming {topic!r}", about)
            elif about is not None and about[0] == ids[topic]:
                same.add(topic)
        return same
