"""Where the messages of an inbox wait: plain ones, those delivered before, and what is not due."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Any

from marq.core.messages import header
from marq.core.messages.header import PLAIN, Meta
from marq.kafka.client.record import have_headers, headers
from marq.kafka.leasing.live import LiveClaim
from marq.kafka.receiving.tickets import Indexes, Ticket, TicketChunk

LATER, LATER_BYTES = 20_000, 20 * 1_048_576
"""So much waits here for its time at most; the rest waits in the log."""


class Room:
    """Messages that wait to be handed out; the inbox's lock is held by whoever uses it.

    But for plain ones that come in: only who has the helm adds them, at the end, and needs no lock
    for it. With one, the pump and a fast consumer wait for each other at every step.
    """

    def __init__(self) -> None:
        self.chunks: deque[TicketChunk] = deque()
        self.tickets: list[Ticket] = []
        self.suspects: list[Ticket] = []
        self.later: list[Ticket] = []
        """Not yet due: apart, so that they keep nobody waiting."""
        self._later_bytes = 0
        self._arrival = count()
        self._came = 0
        """Plain messages that came in; changed by who has the helm."""
        self._went = 0
        """Messages handed out; less those that came in otherwise."""

    @property
    def waiting(self) -> int:
        """Messages in it that are due."""
        return self._came - self._went

    def add_plain(self, live: LiveClaim, metas: dict[int, Meta]) -> None:
        """Take in what of a claim is plain; without the lock, by who has the helm."""
        every = range(len(live.messages))
        plain = [i for i in every if i not in metas] if metas else every
        if plain:
            self.chunks.append(TicketChunk(live, plain, live.messages))
            self._came += len(plain)

    def take(self, limit: int) -> tuple[TicketChunk, Indexes]:
        """The next plain messages, all of one claim."""
        chunk = self.chunks[0]
        indexes = chunk.take(limit)
        self._went += len(indexes)
        if chunk.is_empty:
            self.chunks.popleft()
        return chunk, indexes

    def put_back(self, chunk: TicketChunk) -> None:
        self.chunks.appendleft(chunk)
        self._went -= len(chunk.indexes)

    def add_others(self, live: LiveClaim, metas: dict[int, Meta], now_ms: int) -> Iterator[Ticket]:
        """Take in the rest of a claim; yields what it has no room for."""
        messages = live.messages
        for index, meta in metas.items():
            message = messages[index]
            due_ms = meta.due_at(message.timestamp()[1])
            about = (meta.attempt, meta.suspect, meta.copies > 0)
            ticket = Ticket(due_ms, self.next_arrival(), live, index, message, *about)
            if due_ms > now_ms and self.is_full:
                yield ticket
            else:
                self.wait(ticket)

    def next_arrival(self) -> int:
        return next(self._arrival)

    @property
    def is_full(self) -> bool:
        """Whether no more should wait here for their time."""
        return len(self.later) >= LATER or self._later_bytes >= LATER_BYTES

    def wait(self, ticket: Ticket) -> None:
        """Let it wait for its time."""
        heappush(self.later, ticket)
        self._later_bytes += len(ticket.message)

    def move_due(self, now_ms: int) -> None:
        while self.later and self.later[0].due_ms <= now_ms:
            ticket = heappop(self.later)
            self._later_bytes -= len(ticket.message)
            heappush(self.suspects if ticket.suspect else self.tickets, ticket)
            self._went -= 1

    def next_ticket(self, alone: bool | None) -> Ticket | None:
        """The next of those that are due; see `Handing.alone`."""
        heap = self.suspects if alone or (alone is None and self.suspects) else self.tickets
        if not heap:
            return None
        self._went += 1
        return heappop(heap)

    def recount(self) -> Counter[LiveClaim]:
        """How many messages of each claim are in it; by who has the helm, for an interrupt may
        have left its own count wrong."""
        found: Counter[LiveClaim] = Counter()
        for chunk in self.chunks:
            found[chunk.live] += len(chunk.indexes) - chunk.next
        found.update(each.live for each in (*self.tickets, *self.suspects))
        self._went = self._came - found.total()
        found.update(each.live for each in self.later)
        return found

    def empty(self) -> list[Ticket]:
        """Take everything out."""
        left = [
            Ticket(0, 0, chunk.live, i, chunk.messages[i])
            for chunk in self.chunks
            for i in chunk.indexes[chunk.next :]
        ]
        left += self.tickets + self.suspects + self.later
        self.chunks.clear()
        self.tickets, self.suspects, self.later = [], [], []
        self._went, self._later_bytes = self._came, 0
        return left


def not_plain(messages: list[Any]) -> dict[int, Meta]:
    """By index, what is said of messages that are not plain."""
    if not have_headers(messages):
        return {}
    said = {i: found for i, m in enumerate(messages) if (found := headers(m))}
    metas = {i: header.split(found)[0] for i, found in said.items()}
    return {i: meta for i, meta in metas.items() if meta != PLAIN}
