"""Reads messages back by offset, in sequential stretches, and makes sure they are the ones."""

from __future__ import annotations

from collections.abc import Iterator

from marq.core.overdue import Due, Event
from marq.core.stored import Stored
from marq.kafka.act.seeker import Span
from marq.kafka.act.tools import Tools
from marq.kafka.record import stored

GAP = 5_000
"""Records read over rather than skipped: seeking costs about as much."""
TRANSACTION = 1_000
TRANSACTION_BYTES = 8_000_000

Address = tuple[str, int, int]
Found = list[tuple[Event, Stored | None]]
"""Events with their messages; None: the message is gone."""


class Payloads:
    """The messages of events, in portions that fit a transaction."""

    def __init__(self, tools: Tools, hold_log: tuple[str, int]) -> None:
        self._tools = tools
        self._hold_log = hold_log

    def read(self, events: list[Event]) -> Iterator[Found]:
        """All events, in order as far as the size of their messages lets them stay so."""
        for at in range(0, len(events), TRANSACTION):
            portion = {self._address(event): event for event in events[at : at + TRANSACTION]}
            yield from self._portions(portion)

    def _address(self, event: Event) -> Address:
        if isinstance(event, Due):
            return (*self._hold_log, event.ref.offset)
        return (event.source.queue, event.source.partition, event.offset)

    def _portions(self, wanted: dict[Address, Event]) -> Iterator[Found]:
        found: dict[Address, Stored | None] = {}
        size = 0
        seen: set[Address] = set()
        for record in self._records(self._there(wanted)):
            address = (record.topic, record.partition, record.offset)
            if address not in wanted:
                continue
            found[address] = record
            size += len(record.value or b"") + 1_000
            if size >= TRANSACTION_BYTES:
                yield self._checked(wanted, found)
                seen |= found.keys()
                found, size = {}, 0
        missing = {address: None for address in wanted if address not in seen | found.keys()}
        yield self._checked(wanted, {**found, **missing})

    def _there(self, wanted: dict[Address, Event]) -> list[Address]:
        """What lies in a topic that is still the one: reading another would be in vain."""
        ids = {topic: self._tools.topic_id(topic) for topic in {topic for topic, _, _ in wanted}}
        return [address for address, event in wanted.items() if _is_of(event, ids[address[0]])]

    def _checked(self, wanted: dict[Address, Event], found: dict[Address, Stored | None]) -> Found:
        """With the topic's id compared *after* the read: ids are never used twice, so what was
        read before came from this topic or not at all."""
        ids = {topic: self._tools.topic_id(topic) for topic in {topic for topic, _, _ in found}}
        return [
            (event, found[address] if _is_of(event, ids[address[0]]) else None)
            for address, event in wanted.items()
            if address in found
        ]

    def _records(self, wanted: list[Address]) -> Iterator[Stored]:
        for spans in _rounds(wanted):
            for message in self._tools.seeker.read(spans):
                yield stored(message)


def _is_of(event: Event, topic_id: bytes | None) -> bool:
    return isinstance(event, Due) or event.source.topic_id == topic_id


def _rounds(wanted: list[Address]) -> Iterator[list[Span]]:
    """Spans that hold what is wanted; those of a round lie in different partitions."""
    by_place: dict[tuple[str, int], list[Span]] = {}
    for topic, number, offset in sorted(wanted):
        spans = by_place.setdefault((topic, number), [])
        if spans and offset - spans[-1][3] < GAP:
            spans[-1] = (*spans[-1][:3], offset + 1)
        else:
            spans.append((topic, number, offset, offset + 1))
    for turn in range(max(map(len, by_place.values()), default=0)):
        yield [spans[turn] for spans in by_place.values() if turn < len(spans)]
