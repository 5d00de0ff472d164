"""Counts of queues from what the folds know, and a look at the ends of topics."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from marq.core import names
from marq.core.catalog.definitions import QueueDefinition
from marq.core.fold.counting import SourceCount
from marq.core.subject import Subject
from marq.errors import QueueError
from marq.kafka.client.seeker import Place
from marq.kafka.cluster.reader import Span
from marq.kafka.cluster.stats_log import Counts
from marq.kafka.cluster.troubles import Troubles
from marq.kafka.tracker.act.report import Report
from marq.kafka.tracker.depths import Depths, taken

EXACT = 20
"""So few waiting messages of a partition are counted one by one; more are reckoned from offsets,
and whether they are due yet is not looked at."""
_FIRST = 5
"""Of more, so many are looked at for the oldest: records of transactions are among them."""
ASIDE_S = 60.0


@dataclass(frozen=True, slots=True)
class Topic:
    """A queue's topic, or that of its dead letters, at one moment; each by partition."""

    name: str
    topic_id: bytes
    spans: list[Span]
    counts: list[SourceCount | None]

    def waiting(self, purged: dict[str, int]) -> dict[Place, Span]:
        """Where messages lie that nobody has claimed and no purge has voided."""
        found = {}
        for number, (start, end) in enumerate(self.spans):
            count = self.counts[number]
            polled_to = count.polled_to if count else 0
            first = max(start, polled_to, purged.get(f"{self.name}:{number}", 0))
            if first < end:
                found[self.name, number] = (first, end)
        return found

    @property
    def may_have_ended(self) -> bool:
        """Whether something of it that is still there was claimed."""
        known = zip(self.counts, self.spans, strict=True)
        return any(count is not None and count.polled_to > start for count, (start, _) in known)

    def oldest(self) -> dict[Place, Span]:
        """Where the oldest open message of each partition lies."""
        return {
            (self.name, number): (count.oldest, count.oldest + 1)
            for number, count in enumerate(self.counts)
            if count is not None and count.oldest >= 0
        }


class QueueCounts:
    """Counts queues again and again; what has not changed is not read again."""

    def __init__(self, tails: Depths, heads: Depths, troubles: Troubles) -> None:
        self._tails, self._heads = tails, heads
        self._troubles = troubles
        self.unfinished: set[str] = set()
        """Queues of which more dead letters are to be counted."""
        self._aside: dict[str, float] = {}
        """Queues that cannot be read, and until when they are left out: each read of one keeps
        all others waiting."""

    def forget_others(self, queues: Collection[str]) -> None:
        """Know nothing of queues that are not among these."""
        for depths in (self._tails, self._heads):
            depths.forget_others(queues)

    def of(
        self,
        definitions: Mapping[str, QueueDefinition],
        topics: dict[str, Topic],
        reports: Iterable[Report],
        now_ms: int,
    ) -> dict[str, Counts]:
        """The counts of those of these queues whose topics are there and can be read."""
        parked: Counter[str] = Counter()
        halves: Counter[str] = Counter()
        for report in reports:
            parked.update(report.delayed)
            halves.update(report.halves)
        now = time.monotonic()
        self._aside = {queue: until for queue, until in self._aside.items() if now < until}
        queues = {
            queue: definition
            for queue, definition in definitions.items()
            if topics.keys() >= {queue, Subject(queue).letters} and queue not in self._aside
        }
        found: dict[str, Counts] = {}
        with self._put_aside():
            self._look(queues, topics)
        for queue, definition in queues.items():
            with self._troubles.kept_apart(f"counting {queue!r}"), self._put_aside():
                found[queue] = replace(
                    self._stats(topics, queue, definition, parked[queue], now_ms),
                    halves=halves[queue],
                )
        return found

    @contextlib.contextmanager
    def _put_aside(self) -> Iterator[None]:
        """If a read inside fails, leave out for a while what it did not come to."""
        try:
            yield
        except QueueError:
            until = time.monotonic() + ASIDE_S
            for topic, _ in self._tails.unread():
                self._aside[Subject(topic).queue] = until
            raise

    def _look(self, queues: dict[str, QueueDefinition], topics: dict[str, Topic]) -> None:
        """Read all ends at once: one after the other would take seconds."""
        waiting: dict[Place, Span] = {}
        oldest: dict[Place, Span] = {}
        ids = {name: topic.topic_id for name, topic in topics.items()}
        for depths in (self._tails, self._heads):
            depths.know(ids)
        for queue, definition in queues.items():
            waiting |= topics[queue].waiting(definition.purged)
            oldest |= topics[queue].oldest()
        few = {
            place: (at, end if end - at <= EXACT else at + _FIRST)
            for place, (at, end) in waiting.items()
        }
        self._waiting = self._tails.messages(few)
        self._oldest = self._heads.messages(oldest)
        letters = [topics[Subject(queue).letters] for queue in queues]
        ends = {(topic.name, n): span for topic in letters for n, span in enumerate(topic.spans)}
        self._tails.follow(ends)
        behind = (place[0] for place, (_, end) in ends.items() if self._tails.is_behind(place, end))
        self.unfinished = set(map(names.home, behind))

    def _stats(
        self,
        topics: dict[str, Topic],
        queue: str,
        definition: QueueDefinition,
        parked: int,
        now_ms: int,
    ) -> Counts:
        topic = topics[queue]
        known = [count for count in topic.counts if count is not None]
        waiting = topic.waiting(definition.purged)
        many = {place: end - at for place, (at, end) in waiting.items() if end - at > EXACT}
        some = {place: taken(self._waiting, place) for place in waiting}
        seen = [message for messages in some.values() for message in messages]
        exact = [message for place in some.keys() - many.keys() for message in some[place]]
        later = sum(message.due_ms > now_ms for message in exact)
        first = [message for place in topic.oldest() for message in taken(self._oldest, place)]
        return Counts(
            ready=len(exact) - later + sum((*many.values(), *(count.fetched for count in known))),
            in_flight=sum(count.begun for count in known),
            delayed=parked + later + sum(count.held for count in known),
            dead=self._dead(topics[Subject(queue).letters]),
            oldest_ms=min((message.sent_ms for message in (*seen, *first)), default=0),
        )

    def _dead(self, letters: Topic) -> int:
        dead = 0
        for number, (start, end) in enumerate(letters.spans):
            left = self._tails.records((letters.name, number), start, end)
            count = letters.counts[number]
            if count is not None:
                left = count.never_claimed(left)
                dead += count.fetched + count.begun + count.held
            dead += sum(high - low for low, high in left)
        return dead
