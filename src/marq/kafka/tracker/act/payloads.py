"""Reads messages back by offset, in sequential stretches, and makes sure they are the ones."""

from __future__ import annotations

from collections.abc import Iterator

from marq.core.fold.overdue import Due, Event
from marq.core.messages.stored import Stored
from marq.errors import ConfigError, NotConnected, QueueError
from marq.kafka.client.record import stored
from marq.kafka.client.seeker import Place, Stretch
from marq.kafka.tracker.act.tools import Tools

GAP = 5_000
"""Records read over rather than skipped: seeking costs about as much."""
TRANSACTION = 1_000
TRANSACTION_BYTES = 8_000_000

Address = tuple[str, int, int]
FoundMessages = list[tuple[Event, Stored | None]]
"""Events with their messages; None: the message is gone."""


class Payloads:
    """The messages of events, in portions that fit a transaction."""

    def __init__(self, tools: Tools, hold_log: Place) -> None:
        self._tools = tools
        self._hold_log = hold_log
        self.silent: set[Place] = tools.silent
        """Partitions for which nobody answers."""
        self._hiding: set[Place] = set()
        """Those where the log goes on behind what can be read, or that may not be looked at."""
        self.unread: list[Event] = []
        """Events whose messages cannot be read now."""

    def read(self, events: list[Event]) -> Iterator[FoundMessages]:
        """All events, in order as far as the size of their messages lets them stay so."""
        for at in range(0, len(events), TRANSACTION):
            left = events[at : at + TRANSACTION]
            while left:
                portion: dict[Address, Event] = {}
                for event in left:
                    portion.setdefault(self._address(event), event)
                yield from self._portions(portion)
                # A queue made again has its messages where those of the one before it lay.
                left = [event for event in left if portion[self._address(event)] is not event]

    def _address(self, event: Event) -> Address:
        if isinstance(event, Due):
            return (*self._hold_log, event.ref.offset)
        return (event.source.queue, event.source.partition, event.offset)

    def _portions(self, wanted: dict[Address, Event]) -> Iterator[FoundMessages]:
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
        left = [address for address in wanted if address not in seen | found.keys()]
        unread = {address for address in left if address[:2] in self.silent | self._hiding}
        self.unread += [wanted[address] for address in unread]
        missing = {address: None for address in left if address not in unread}
        yield self._checked(wanted, {**found, **missing})

    def _there(self, wanted: dict[Address, Event]) -> list[Address]:
        """What lies in a topic that is still the one, and in one of its partitions: reading from
        another would be in vain, and waited for."""
        topics = self._tools.topics(topic for topic, _, _ in wanted)
        there: list[Address] = []
        for address, event in wanted.items():
            about = topics[address[0]]
            if isinstance(about, ConfigError):
                self._hiding.add(address[:2])
            elif isinstance(about, QueueError):
                raise about
            elif about and _is_of(event, about[0]) and address[1] < about[1]:
                there.append(address)
        return there

    def _checked(
        self, wanted: dict[Address, Event], found: dict[Address, Stored | None]
    ) -> FoundMessages:
        """With the topic's id compared *after* the read: ids are never used twice, so what was
        read before came from this topic or not at all."""
        topics = self._tools.topics(topic for topic, _, _ in found)
        for about in topics.values():
            if isinstance(about, QueueError):
                raise about
        ids = {topic: about[0] for topic, about in topics.items() if isinstance(about, tuple)}
        return [
            (event, found[address] if _is_of(event, ids.get(address[0])) else None)
            for address, event in wanted.items()
            if address in found
        ]

    def _records(self, wanted: list[Address]) -> Iterator[Stored]:
        for spans in _rounds(wanted):
            try:
                # Each that is silent would be waited for again.
                asked = [span for span in spans if span[:2] not in self.silent]
                for message in self._tools.seeker.read(asked):
                    yield stored(message)
                self._hiding.update(filter(self._goes_on, self._tools.seeker.unread))
            except (NotConnected, ConfigError):
                # If it is the cluster that is away, the next write says so.
                self.silent.update(self._tools.seeker.unread)

    def _goes_on(self, place: Place) -> bool:
        """Whether the log has more than could be read. Then nothing is gone: a leader chosen a
        moment ago does not know yet how much it may show."""
        try:
            if self._tools.topic(place[0]) is None:
                return False
            return self._tools.end(*place) > self._tools.seeker.reached.get(place, 0)
        except QueueError:
            return True


def _is_of(event: Event, topic_id: bytes | None) -> bool:
    return isinstance(event, Due) or event.source.topic_id == topic_id


def _rounds(wanted: list[Address]) -> Iterator[list[Stretch]]:
    """Spans that hold what is wanted; those of a round lie in different partitions."""
    by_place: dict[tuple[str, int], list[Stretch]] = {}
    for topic, number, offset in sorted(wanted):
        spans = by_place.setdefault((topic, number), [])
        if spans and offset - spans[-1][3] < GAP:
            spans[-1] = (*spans[-1][:3], offset + 1)
        else:
            spans.append((topic, number, offset, offset + 1))
    for turn in range(max(map(len, by_place.values()), default=0)):
        yield [spans[turn] for spans in by_place.values() if turn < len(spans)]
