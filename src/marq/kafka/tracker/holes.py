"""Offsets that nobody ever claimed and that hold no message: transactions leave them, and so does
a worker that started behind one.

What has ended goes by what was claimed, so such a hole would keep a topic from ever being trimmed
past it. That it is empty is proved by reading it, once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from marq.core.fold.counting import SourceCount
from marq.core.markers.runs import Runs
from marq.kafka.client.seeker import Place, Seeker
from marq.kafka.tracker.queue_counts import Topic

STRETCH = 10_000
"""So many offsets of a partition are read at a time, at most."""

SourceId = tuple[bytes, int]
"""Topic id and partition."""


class Holes:
    """What was read of the holes of topics' partitions."""

    def __init__(self, seeker: Seeker) -> None:
        self._seeker = seeker
        self._empty: dict[SourceId, Runs] = {}
        self._found: dict[SourceId, int] = {}
        """Where a message lies that nobody has claimed: the log is needed from there."""

    def settled(self, topic: Topic, partition: int) -> int:
        """All of the partition's log below has ended."""
        start, _ = topic.spans[partition]
        count = topic.counts[partition]
        if count is None:
            return start
        return count.settled_to(start, self._empty.get((topic.topic_id, partition)))

    def forget_others(self, ids: Collection[bytes]) -> None:
        """Know nothing of topics that are not among these."""
        self._empty = {source: runs for source, runs in self._empty.items() if source[0] in ids}
        self._found = {source: at for source, at in self._found.items() if source[0] in ids}

    def look(self, topics: Iterable[Topic]) -> None:
        """Read on in the first hole of every partition."""
        stretches: dict[Place, _Stretch] = {}
        known: dict[SourceId, Runs] = dict(self._empty)
        for topic in topics:
            for number, count in enumerate(topic.counts):
                if count is None:
                    continue
                source, (start, end) = (topic.topic_id, number), topic.spans[number]
                known[source] = Runs(self._empty.get(source, Runs()).within(start, end))
                hole = count.hole(start, known[source], STRETCH)
                if hole is not None and self._found.get(source) != hole[0]:
                    stretches[topic.name, number] = _Stretch(source, count, *hole)
        self._empty = known  # nothing is kept of what was trimmed
        self._read(stretches)

    def _read(self, stretches: dict[Place, _Stretch]) -> None:
        spans = [(*place, each.start, each.end) for place, each in stretches.items()]
        records = {place: Runs() for place in stretches}
        try:
            for message in self._seeker.read(spans):
                offset = message.offset()
                records[message.topic(), message.partition()].add(offset, offset + 1)
        finally:  # what cannot be read of one keeps nothing from the others
            self._take(stretches, records)

    def _take(self, stretches: dict[Place, _Stretch], records: dict[Place, Runs]) -> None:
        for place, each in stretches.items():
            # What a transaction that is undecided hides may be a message yet.
            read_to = min(each.end, self._seeker.reached.get(place, each.start))
            message_at = each.known.first_unclaimed(records[place])
            if message_at is not None:
                self._found[each.source] = read_to = min(read_to, message_at)
            self._empty[each.source].add(each.start, read_to)


class _Stretch(NamedTuple):
    """Offsets to be read: a hole, and others near to it."""

    source: SourceId
    known: SourceCount
    start: int
    end: int
