"""One queue's end in the memory broker: positions, claims, and the room for what is not yet due."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import count
from typing import NamedTuple

from marq.core.catalog.definitions import QueueDefinition
from marq.core.fate import redelivery, settling
from marq.core.fate.expiry import AtHand, at_hand
from marq.core.fate.settling import PUMP_LEASE_MS
from marq.core.markers.marker import (
    Begun,
    Claim,
    ClaimId,
    Hold,
    Progress,
    Source,
    Step,
)
from marq.core.messages.header import Past
from marq.core.messages.stored import Stored, is_void
from marq.memory.log import MemoryTopic
from marq.memory.tracker import MemoryTracker


class MemoryTicket(NamedTuple):
    """A claimed message that waits to be handed out; sorts by due time, then arrival."""

    due_ms: int
    arrival: int
    stored: Stored
    claim: ClaimId
    bit: int
    """Its index in the claim, as a set of one."""
    again: int = 0
    """The attempt of a retry that waits here; 0: the record says which it is."""
    begin_by_ms: int = 1 << 62
    """When its lease must have begun, or it comes back by itself."""
    past: tuple[Past, ...] = ()
    """The attempts that were retried here."""

    @property
    def attempt(self) -> int:
        return self.again or self.stored.meta().attempt

    @property
    def suspect(self) -> bool:
        return not self.again and self.stored.meta().suspect


class Reader:
    """Everything the consumers of one queue share."""

    def __init__(
        self, queue: str, topic: MemoryTopic, tracker: MemoryTracker, sequence: count[int]
    ) -> None:
        self.queue = queue
        self.topic = topic
        self._tracker = tracker
        self._sequence = sequence
        self._arrival = count()
        self.positions = [0] * len(topic.partitions)
        self.room: list[MemoryTicket] = []
        self._alone: list[MemoryTicket] = []
        """Suspects that are due."""
        self._turn = 0

    def next_due_ms(self) -> int | None:
        return self.room[0].due_ms if self.room else None

    def hand_out(
        self, limit: int, now_ms: int, queue: QueueDefinition, alone: bool | None
    ) -> list[MemoryTicket]:
        """At most `limit` messages that are due; see `Handing.alone`."""
        chosen: list[MemoryTicket] = []
        while len(chosen) < limit and (ticket := self._choose(limit, now_ms, alone)):
            if self._wanted(ticket, now_ms, queue):
                chosen.append(ticket)
        return chosen

    def _choose(self, limit: int, now_ms: int, alone: bool | None) -> MemoryTicket | None:
        if self._alone and alone is not False:
            return self._alone.pop(0)
        while alone is not True and (ticket := self._next(limit, now_ms)):
            if alone is None or not ticket.suspect:
                return ticket
            self._alone.append(ticket)
        return None

    @property
    def waiting(self) -> list[MemoryTicket]:
        """What is claimed and not handed out."""
        return self.room + self._alone

    def due(self) -> dict[str, int]:
        """By its place in the log, when each message that waits here is due."""
        return {ticket.stored.address: ticket.due_ms for ticket in self.waiting}

    def forget(self) -> None:
        """Lose what is waiting, as a process that dies does."""
        self.room.clear()
        self._alone.clear()

    @property
    def suspects(self) -> int:
        """Messages that wait to be handed out alone."""
        return len(self._alone)

    def _next(self, limit: int, now_ms: int) -> MemoryTicket | None:
        while not self.room or self.room[0].due_ms > now_ms:
            if not self._poll(limit):
                return None
        return heappop(self.room)

    def _poll(self, limit: int) -> bool:
        """Claim what comes next in one of the partitions, each in its turn; False: nothing."""
        for _ in self.positions:
            self._turn = (self._turn + 1) % len(self.positions)
            records = self.topic.partitions[self._turn].read(self.positions[self._turn], limit)
            if records:
                self._claim(records, self.positions[self._turn])
                self.positions[self._turn] = records[-1].offset + 1
                return True
        return False

    def _claim(self, records: list[Stored], start: int) -> None:
        claim = self.claim_records(records, start)
        for index, stored in enumerate(records):
            due_ms = stored.meta().due_at(stored.at_ms)
            heappush(
                self.room, MemoryTicket(due_ms, next(self._arrival), stored, claim, 1 << index)
            )

    def claim_records(self, records: list[Stored], start: int) -> ClaimId:
        """Write a claim of these records of one partition."""
        claim = ClaimId(self._tracker.worker, next(self._sequence))
        source = Source(self.topic.id, records[0].partition, self.queue, "", 0)
        runs = tuple((record.offset, 1) for record in records)
        self._tracker.write(Claim(claim, source, start, runs, PUMP_LEASE_MS))
        return claim

    def _wanted(self, ticket: MemoryTicket, now_ms: int, queue: QueueDefinition) -> bool:
        """Whether it is still to be handed out; purged and expired ones end here."""
        if ticket.begin_by_ms <= now_ms:
            return False  # it waited too long: it comes back by itself
        match at_hand(ticket.stored, now_ms, queue):
            case AtHand.WANTED:
                return True
            case AtHand.ENDED:
                self.end(ticket)
            case AtHand.BURIED:
                self._tracker.write(Hold((settling.outlived(ticket.claim, ticket.bit),)))
                self._tracker.run()
        return False

    def hand_out_again(
        self, ticket: MemoryTicket, due_ms: int, begin_by_ms: int, past: Past
    ) -> None:
        """Hand it out again when it is due, as the next attempt, if its lease begins by then."""
        again = ticket._replace(
            due_ms=due_ms,
            arrival=next(self._arrival),
            again=ticket.attempt + 1,
            begin_by_ms=begin_by_ms,
            past=(*ticket.past, past),
        )
        heappush(self.room, again)

    def end(self, ticket: MemoryTicket) -> None:
        """End a message and let its payload go."""
        self._tracker.write(Progress((Step(ticket.claim, ticket.bit),)))
        self._tracker.let_go(self.topic.id, ticket.stored.partition, ticket.stored.offset)

    def give_back(self, ticket: MemoryTicket) -> None:
        """Let someone else have it: the copy first, then the end, so that no crash loses it."""
        self._tracker.append(
            redelivery.given_back(ticket.stored, self.queue, ticket.attempt, past=ticket.past)
        )
        self.end(ticket)

    def begin(self, tickets: list[MemoryTicket], lease_ms: int, kept_alive: bool) -> None:
        ahead_ms = settling.ahead_ms(lease_ms, kept_alive)
        steps = tuple(
            Step(t.claim, 0, (Begun(t.bit, lease_ms, t.attempt, kept_alive, ahead_ms),))
            for t in tickets
        )
        if steps:
            self._tracker.write(Progress(steps))

    def close(self) -> None:
        """End what was not handed out: the queue is deleted."""
        for ticket in self.waiting:
            self.end(ticket)

    def purge(self, queue: QueueDefinition) -> None:
        """Drop what a purge voided."""
        void = [ticket for ticket in self.waiting if is_void(ticket.stored, queue.purged)]
        self.room = [ticket for ticket in self.waiting if ticket not in void]
        self._alone.clear()
        heapify(self.room)
        for ticket in void:
            self.end(ticket)
        for partition, start in zip(self.topic.partitions, self.positions, strict=True):
            for stored in partition.read(start, len(partition)):
                if is_void(stored, queue.purged):
                    partition.drop(stored.offset)
