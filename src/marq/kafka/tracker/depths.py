"""Which offsets of a partition hold records: transactions leave offsets that hold none.

Each stretch is read once and remembered, so that a count costs what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from marq.core import names
from marq.core.markers.runs import Runs
from marq.core.messages.stored import Stored
from marq.kafka.client.record import stored
from marq.kafka.client.seeker import Place, Seeker
from marq.kafka.cluster.reader import Span


class Known(NamedTuple):
    """What was found when a partition was read up to there."""

    upto: int
    records: Runs
    asked: int
    """How far it was to be read; the rest of it is hidden by a transaction that is undecided."""


class Waiting(NamedTuple):
    """A message that nobody has claimed: when it was sent and when it is due."""

    sent_ms: int
    due_ms: int


STRETCH = 20_000
"""So many offsets of a partition are read in one look, at most; records behind them are reckoned
from offsets until it comes to them."""

FoundWaiting = list[Waiting] | Exception
"""What waits there, or why that cannot be said."""


class Depths:
    """Counts records by reading them."""

    def __init__(self, seeker: Seeker) -> None:
        self._seeker = seeker
        self._ids: dict[str, bytes] = {}
        self._known: dict[Place, Known] = {}
        self._seen: dict[Place, tuple[Span, FoundWaiting]] = {}

    def know(self, ids: Mapping[str, bytes]) -> None:
        """Which topics these are: what was found in others of their names is forgotten."""
        others = {name for name, topic_id in ids.items() if self._ids.get(name) != topic_id}
        if others:
            self._keep(lambda name: name not in others)
        self._ids |= ids

    def forget_others(self, queues: Collection[str]) -> None:
        """Know nothing of queues that are not among these."""
        self._keep(lambda name: names.home(name) in queues)
        self._ids = {name: each for name, each in self._ids.items() if names.home(name) in queues}

    def _keep(self, is_kept: Callable[[str], bool]) -> None:
        self._known = {place: each for place, each in self._known.items() if is_kept(place[0])}
        self._seen = {place: each for place, each in self._seen.items() if is_kept(place[0])}

    def unread(self) -> Iterable[Place]:
        """What the last read did not come to, if it failed."""
        return self._seeker.unread

    def follow(self, spans: Mapping[Place, Span]) -> None:
        """Read on in these partitions, in all of them at once."""
        stretches: dict[Place, Span] = {}
        for place, (start, end) in spans.items():
            known = self._known.get(place)
            if known is None or known.upto > end:  # never read, or another topic since a moment ago
                known = self._known[place] = Known(start, Runs(), start)
            if known.upto < end:
                first = max(start, known.upto)
                stretches[place] = first, min(end, first + STRETCH)
        for message in self._seeker.read([(*place, *span) for place, span in stretches.items()]):
            offset = message.offset()
            self._known[message.topic(), message.partition()].records.add(offset, offset + 1)
        for place, (first, end) in stretches.items():
            # What a transaction that is undecided hides is read when that has ended.
            upto = min(end, self._seeker.reached.get(place, first))
            self._known[place] = Known(upto, self._known[place].records, end)

    def records(self, place: Place, start: int, end: int) -> Runs:
        """The offsets of all records of the partition, as far as `end`; those behind where it was
        read to are taken for records."""
        known = self._known[place]
        return Runs([*known.records.within(start, end), (max(start, known.asked), end)])

    def is_behind(self, place: Place, end: int) -> bool:
        """Whether there is more to be read."""
        return self._known[place].asked < end

    def messages(self, spans: dict[Place, Span]) -> dict[Place, FoundWaiting]:
        """The messages of these spans; those of a partition's span are read once."""
        seen = {p: self._seen[p][1] for p in spans if self._seen.get(p, ((), []))[0] == spans[p]}
        wanted = {place: span for place, span in spans.items() if place not in seen}
        read: dict[Place, list[Any]] = {place: [] for place in wanted}
        for message in self._seeker.read([(*place, *span) for place, span in wanted.items()]):
            read[message.topic(), message.partition()].append(message)
        found = {place: _found(messages) for place, messages in read.items()}
        undecided = set(self._seeker.unread)
        self._seen |= {p: (wanted[p], each) for p, each in found.items() if p not in undecided}
        return seen | found


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
