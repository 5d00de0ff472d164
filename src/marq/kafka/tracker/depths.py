"""Which offsets of a partition hold records: transactions leave offsets that hold none.

Each stretch is read once and remembered, so that a count costs what is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from marq.core.markers.runs import Runs
from marq.core.messages.stored import Stored
from marq.kafka.client.record import stored
from marq.kafka.client.seeker import Place, Seeker
from marq.kafka.cluster.reader import Span


class Known(NamedTuple):
    """What was found when a partition was read up to there."""

    upto: int
    records: Runs


class Waiting(NamedTuple):
    """A message that nobody has claimed: when it was sent and when it is due."""

    sent_ms: int
    due_ms: int


FoundWaiting = list[Waiting] | Exception
"""What waits there, or why that cannot be said."""


class Depths:
    """Counts records by reading them."""

    def __init__(self, seeker: Seeker) -> None:
        self._seeker = seeker
        self._ids: dict[str, bytes] = {}
        self._known: dict[Place, Known] = {}
        self._seen: dict[tuple[Place, Span], FoundWaiting] = {}

    def know(self, ids: Mapping[str, bytes]) -> None:
        """Which topics these are: what was found in others of their names is forgotten."""
        others = {name for name, topic_id in ids.items() if self._ids.get(name) != topic_id}
        self._known = {p: known for p, known in self._known.items() if p[0] not in others}
        self._seen = {key: seen for key, seen in self._seen.items() if key[0][0] not in others}
        self._ids = dict(ids)

    def unread(self) -> Iterable[Place]:
        """What the last read did not come to, if it failed."""
        return self._seeker.unread

    def records(self, place: Place, start: int, end: int) -> Runs:
        """The offsets of all records of the partition, as far as `end`."""
        known = self._known.get(place)
        if known is None or known.upto > end:  # never read, or another topic since a moment ago
            known = Known(start, Runs())
        if known.upto < end:
            first = max(start, known.upto)
            for message in self._seeker.read([(*place, first, end)]):
                known.records.add(message.offset(), message.offset() + 1)
            # What a transaction that is undecided hides is read when that has ended.
            known = Known(min(end, self._seeker.reached.get(place, first)), known.records)
        self._known[place] = known
        return Runs(known.records.within(start, end))

    def messages(self, spans: dict[Place, Span]) -> dict[Place, FoundWaiting]:
        """The messages of these spans; only those not asked for last time are read."""
        seen = {key: self._seen[key] for key in spans.items() if key in self._seen}
        wanted = {place: span for place, span in spans.items() if (place, span) not in seen}
        read: dict[Place, list[Any]] = {place: [] for place in wanted}
        for message in self._seeker.read([(*place, *span) for place, span in wanted.items()]):
            read[message.topic(), message.partition()].append(message)
        found = {(place, wanted[place]): _found(messages) for place, messages in read.items()}
        undecided = set(self._seeker.unread)
        self._seen = seen | {key: each for key, each in found.items() if key[0] not in undecided}
        return {place: each for (place, _), each in (seen | found).items()}


def taken(found: Mapping[Place, FoundWaiting], place: Place) -> list[Waiting]:
    """What was found there; raises what kept it from being understood."""
    here = found.get(place, [])
    if isinstance(here, Exception):
        raise here
    return here


def _found(messages: list[Any]) -> FoundWaiting:
    try:
        return [_waiting(stored(message)) for message in messages]
    except Exception as error:  # an odd record is no reason to count no other queue
        return error


def _waiting(record: Stored) -> Waiting:
    meta = record.meta()
    return Waiting(meta.sent_ms or record.at_ms, meta.due_at(record.at_ms))
