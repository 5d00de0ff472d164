"""The topics of queues at one moment: which they are, and where they start and end."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from marq.core import names
from marq.core.catalog.definitions import Catalog
from marq.core.subject import Subject
from marq.errors import QueueError
from marq.kafka.client.seeker import Place
from marq.kafka.cluster.admin import Admin
from marq.kafka.cluster.reader import Span
from marq.kafka.cluster.troubles import Troubles
from marq.kafka.tracker.heard import Heard
from marq.kafka.tracker.queue_counts import Topic

KNOWN_S = 60.0
"""How long is believed which topic it is, how many partitions it has and where they start: marq
trims them, and asks then, others hardly do; an operator may add some."""
ASIDE_S = 10.0
"""How long a topic is left out that nobody tells of: each question waits for it."""


class _Known(NamedTuple):
    """What was found under a name."""

    version: int
    """Of the queue's entry: a queue made again has another one, a topic that others made again has
    not."""
    topic_id: bytes
    partitions: int
    """Not what the entry says: an operator may have added some, to which senders send then."""
    until: float


class QueueTopics:
    """Looks them up; what cannot be told of one keeps nothing from the others."""

    def __init__(
        self, admin: Admin, troubles: Troubles, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._admin = admin
        self._troubles = troubles
        self._now = now
        self._known: dict[str, _Known] = {}
        self._starts: dict[str, list[int]] = {}
        """By name: where the partitions that are known start."""
        self._spans: dict[str, list[Span]] = {}
        """As they were when they were looked at last."""
        self._aside: dict[str, float] = {}
        """By name, until when it is not looked at."""
        self.moved: set[str] = set()
        """Queues whose topics have others than when they were looked at last."""

    def look(
        self, catalog: Catalog, queues: Iterable[str], heard: Heard, anew: bool
    ) -> dict[str, Topic]:
        """Those of these queues that are there; `anew` asks for everything, whatever is known."""
        wanted = [name for queue in queues for name in (queue, Subject(queue).letters)]
        self._identify(catalog, wanted, anew)
        now = self._now()
        spans = self._look(
            {
                name: self._known[name].partitions
                for name in wanted
                if name in self._known and self._aside.get(name, now) <= now
            }
        )
        self.moved = {names.home(t) for t, found in spans.items() if self._spans.get(t) != found}
        self._spans |= spans
        topics: dict[str, Topic] = {}
        for name, found in spans.items():
            topic_id = self._known[name].topic_id
            counts = [heard.get((topic_id, number, "")) for number in range(len(found))]
            topics[name] = Topic(name, topic_id, found, counts)
        return topics

    def forget_others(self, queues: Collection[str]) -> None:
        """Know nothing of queues that are not among these."""
        for known in (self._known, self._starts, self._spans, self._aside):
            for name in [name for name in known if names.home(name) not in queues]:
                del known[name]

    def _look(self, wanted: Mapping[str, int]) -> dict[str, list[Span]]:
        """Where these start and end; those of which nobody tells all are left out."""
        asked = {name: number for name, number in wanted.items() if name not in self._starts}
        self._starts |= _whole(asked, self._admin.known_starts(_places(asked)))
        ends = _whole(wanted, self._admin.known_ends(_places(wanted)))
        spans: dict[str, list[Span]] = {}
        for name in wanted:
            if name in self._starts and name in ends:
                spans[name] = list(zip(self._starts[name], ends[name], strict=True))
            else:
                error = QueueError("nobody tells where all its partitions start and end")
                self._troubles.tell(f"looking at {name!r}", error)
                self._aside[name] = self._now() + ASIDE_S
        return spans

    def _identify(self, catalog: Catalog, wanted: Iterable[str], anew: bool) -> None:
        """Ask for what is not known, or not any more; then where they start is asked for, too."""
        now = self._now()
        versions = {name: catalog.version("queue", names.home(name)) for name in wanted}
        for name, version in versions.items():
            known = self._known.get(name)
            if anew or known is None or known.version != version or known.until <= now:
                self._known.pop(name, None)
                self._starts.pop(name, None)
        for name, about in self._admin.describe_each(versions.keys() - self._known.keys()).items():
            if isinstance(about, tuple):
                self._known[name] = _Known(versions[name], *about, until=now + KNOWN_S)
            elif about is not None:
                self._troubles.tell(f"looking at {name!r}", about)
            elif anew:  # the catalog was read to its end: it is not that it was just deleted
                self._troubles.tell(f"looking at {name!r}", QueueError("there is no such topic"))


def _places(topics: Mapping[str, int]) -> list[Place]:
    return [(name, number) for name, partitions in topics.items() for number in range(partitions)]


def _whole(topics: Mapping[str, int], found: Mapping[Place, int]) -> dict[str, list[int]]:
    """By topic and partition; a topic of which something was not found is left out."""
    return {
        name: [found[name, number] for number in range(partitions)]
        for name, partitions in topics.items()
        if all((name, number) in found for number in range(partitions))
    }
