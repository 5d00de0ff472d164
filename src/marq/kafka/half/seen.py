"""A look at the half messages that are open."""

from __future__ import annotations

from marq.backend import SeenHalf
from marq.core.fold.parked import Answers, ParkedEntry
from marq.core.markers.marker import Action
from marq.errors import NotConnected
from marq.kafka.access import Access
from marq.kafka.client.record import stored


def open_halves(access: Access) -> list[SeenHalf]:
    """All that are open, oldest first: from a fold of the log, and their records."""
    topic = access.space.delayed
    states = access.reader.folded(topic, access.markers_partitions)
    wanted = {
        (number, entry.ref.offset): entry
        for number, state in enumerate(states)
        for entry in state.parked
        if entry.half is not None
    }
    spans: dict[int, tuple[int, int]] = {}
    for number, offset in wanted:
        first, end = spans.get(number, (offset, offset + 1))
        spans[number] = (min(first, offset), max(end, offset + 1))
    found = []
    for message in access.reader.read(topic, spans):
        entry = wanted.get((message.partition(), message.offset()))
        if entry is not None:
            found.append(_seen(message, entry))
    return sorted(found, key=lambda half: (half.stored.at_ms, half.stored.address))


def _seen(message: object, entry: ParkedEntry) -> SeenHalf:
    answers, is_decided = entry.half or Answers(), entry.action is not Action.CHECK
    return SeenHalf(stored(message), entry.ref, entry.tries, answers, is_decided)


def appended_ms(access: Access, partition: int, offset: int) -> int:
    """When this record of the log of parked messages was appended."""
    for message in access.reader.read(access.space.delayed, {partition: (offset, offset + 1)}):
        return int(message.timestamp()[1])
    raise NotConnected("when the half message was appended is not known: check-back decides")
