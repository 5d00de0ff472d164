"""Which offsets of a partition hold records: transactions leave offsets that hold none.

Each stretch is read once and remembered, so that a count costs what is new.
"""

from __future__ import annotations

from typing import NamedTuple

from marq.core.runs import Runs
from marq.core.stored import Stored
from marq.kafka.act.seeker import Place, Seeker
from marq.kafka.record import stored


class Known(NamedTuple):
    """What was found when a partition was read up to there."""

    upto: int
    records: Runs


class Waiting(NamedTuple):
    """A message that nobody has claimed: when it was sent and when it is due."""

    sent_ms: int
    due_ms: int


Span = tuple[int, int]


class Depths:
    """Counts records by reading them."""

    def __init__(self, seeker: Seeker) -> None:
        self._seeker = seeker
        self._known: dict[Place, Known] = {}
        self._seen: dict[tuple[Place, Span], list[Waiting]] = {}

    def records(self, place: Place, start: int, end: int) -> Runs:
        """The offsets of all records of the partition, as far as `end`."""
        known = self._known.get(place)
        if known is None or known.upto > end:  # never read, or another topic of the same name
            known = Known(start, Runs())
        if known.upto < end:
            for message in self._seeker.read([(*place, known.upto, end)]):
                known.records.add(message.offset(), message.offset() + 1)
            known = Known(end, known.records)
        self._known[place] = known
        return Runs(known.records.within(start, end))

    def messages(self, spans: dict[Place, Span]) -> dict[Place, list[Waiting]]:
        """The messages of these spans; only those not asked for last time are read."""
        seen = {key: self._seen[key] for key in spans.items() if key in self._seen}
        wanted = {place: span for place, span in spans.items() if (place, span) not in seen}
        found: dict[Place, list[Waiting]] = {place: [] for place in wanted}
        for message in self._seeker.read([(*place, *span) for place, span in wanted.items()]):
            found[message.topic(), message.partition()].append(_waiting(stored(message)))
        self._seen = seen | {(place, wanted[place]): each for place, each in found.items()}
        return {place: each for (place, _), each in self._seen.items()}


def _waiting(record: Stored) -> Waiting:
    meta = record.meta()
    return Waiting(meta.sent_ms or record.at_ms, meta.due_at(record.at_ms))
