"""The inbox: claimed and committed messages of a queue, waiting to be handed out."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count, repeat
from typing import Any

from confluent_kafka import Message

from marq.backend import Handing
from marq.core import header, redelivery, settling
from marq.core.catalog import QueueDefinition
from marq.core.expiry import expired
from marq.core.header import PLAIN, Meta
from marq.core.marker import Action, Held
from marq.core.redelivery import EXPIRED
from marq.core.stored import Outgoing, is_void
from marq.errors import QueueError
from marq.kafka.answers import Answer
from marq.kafka.delivery import KafkaDelivery
from marq.kafka.live import Handout, LiveClaim
from marq.kafka.record import stored
from marq.kafka.tickets import GIVE_BACK_S, Chunk, Terms, Ticket, mask_of, wait_for
from marq.message import Delivery
from marq.receipt import Receipt

_LOOK_S = 0.5
BEGIN_S = 5.0
"""How long a hand-out waits for the log to take the begun of a later attempt."""


class KafkaInbox:
    """One queue's messages in this process."""

    def __init__(
        self,
        queue: str,
        definition: Callable[[], QueueDefinition],
        now_ms: Callable[[], int],
        write: Callable[[Outgoing], Receipt[Any]],
        random: Callable[[], float],
    ) -> None:
        self.queue = queue
        self.definition = definition
        self.now_ms = now_ms
        self.write = write
        self.random = random
        self.changed = threading.Condition()
        self._chunks: deque[Chunk] = deque()
        self._tickets: list[Ticket] = []
        self._later: list[Ticket] = []
        """Not yet due: a room of their own, so that they keep nobody waiting."""
        self.arrival = count()
        self.waiting = 0
        """Messages in it that are due."""
        self.taken_at = time.monotonic()
        self.takers = 0
        self.wanted = 0
        """Messages asked for by those who wait."""
        self.taken = 0
        """Messages handed out so far: what prefetching goes by."""
        self.starved = False
        """Whether someone waited for messages since the pump looked last."""
        self.failure: QueueError | None = None
        self.closed = False

    # Filling.

    def add(self, live: LiveClaim) -> None:
        """Take in the messages of a committed claim."""
        messages = live.messages
        found = _not_plain(messages)
        with self.changed:
            if len(found) < len(messages):
                every = range(len(messages))
                plain = [i for i in every if i not in found] if found else every
                self._chunks.append(Chunk(live, plain, messages))
            for index, meta in found.items():
                self._add_ticket(live, index, meta)
            self.waiting += len(messages) - len(found)
            self._move_due(self.now_ms())
            self.changed.notify_all()
        live.messages = []  # handed out, they are the deliveries' own: what is done is let go

    def _add_ticket(self, live: LiveClaim, index: int, meta: Meta) -> None:
        message = live.messages[index]
        due_ms = meta.due_at(message.timestamp()[1])
        ticket = Ticket(due_ms, next(self.arrival), live, index, message, meta.attempt, None)
        heappush(self._later, ticket)

    @property
    def later(self) -> int:
        """Messages in it that are not yet due."""
        return len(self._later)

    def _move_due(self, now_ms: int) -> None:
        while self._later and self._later[0].due_ms <= now_ms:
            heappush(self._tickets, heappop(self._later))
            self.waiting += 1

    # Handing out.

    def take(self, limit: int, wait_s: float, handing: Handing) -> list[Delivery[Any]]:
        until = time.monotonic() + wait_s
        with self.wanting(limit):
            while True:
                with self.changed:
                    found, begun = self._take_now(limit, handing)
                    if not found and not begun and not self._wait(until):
                        return []
                if found or begun:
                    return found + self._begun(begun)

    @contextmanager
    def wanting(self, limit: int = 0) -> Iterator[None]:
        """While inside, someone wants messages: the pump joins the group if it has left."""
        with self.changed:
            self.takers += 1
            self.wanted += limit
            self.changed.notify_all()
        try:
            yield
        finally:
            with self.changed:
                self.takers -= 1
                self.wanted -= limit
                self.taken_at = time.monotonic()

    def wait_for_first(self, timeout_s: float) -> None:
        """Wait until there is something, or there would be by now."""
        with self.changed:
            self.changed.wait_for(lambda: self.waiting or self.failure, timeout_s)

    def _wait(self, until: float) -> bool:
        """Wait for something to change; False: it is time to give up."""
        if self.failure is not None:
            raise self.failure
        left = until - time.monotonic()
        if left <= 0 or self.closed:
            return False
        self.starved = True
        left = min(left, _LOOK_S)  # paused, resumed, deleted: the catalog tells, nobody wakes us
        if self._later:
            left = min(left, max(0.001, (self._later[0].due_ms - self.now_ms()) / 1_000))
        self.changed.wait(left)
        return True

    def _take_now(
        self, limit: int, handing: Handing
    ) -> tuple[list[Delivery[Any]], list[tuple[Handout, Ticket]]]:
        definition = self.definition()
        if definition.paused:
            return [], []
        now_ms = self.now_ms()
        lease_ms = definition.lease_ms if handing.lease_ms is None else handing.lease_ms
        terms = Terms(lease_ms, handing.kept_alive, handing.wanted, now_ms)
        begun: list[tuple[Handout, Ticket]] = []
        found: list[Delivery[Any]] = []
        self._move_due(now_ms)
        while self._tickets and len(begun) < limit:
            self._begin_ticket(heappop(self._tickets), definition, terms, begun)
        while self._chunks and len(found) + len(begun) < limit:
            found += self._slice(limit - len(found) - len(begun), definition, terms)
        self.waiting -= len(found)
        self.taken += len(found) + len(begun)
        return found, begun

    def _slice(self, limit: int, definition: QueueDefinition, terms: Terms) -> list[Delivery[Any]]:
        """The next plain messages of the first chunk."""
        chunk = self._chunks[0]
        live, start = chunk.live, chunk.next
        indexes = chunk.indexes[start : start + limit]
        messages = chunk.messages
        chunk.next += len(indexes)
        if chunk.next == len(chunk.indexes):
            self._chunks.popleft()
        if live.lapse_ms <= terms.now_ms:  # the process slept: someone else has them by now
            self.waiting -= len(indexes)
            with live.lane.lock:
                live.leave(len(indexes), unbegun=len(indexes))
            return []
        purged_below = definition.purged.get(f"{self.queue}:{live.partition}", 0)
        if definition.ttl_ms is not None or live.start < purged_below:
            indexes = [i for i in indexes if self._wanted(live, i, messages[i], definition, terms)]
        if not indexes:
            return []
        handout = self._handout(live, mask_of(indexes), len(indexes), 1, terms)
        return list(map(KafkaDelivery, repeat(handout), indexes, _at(messages, indexes)))

    def _handout(
        self, live: LiveClaim, mask: int, number: int, attempt: int, terms: Terms
    ) -> Handout:
        handout = Handout(self, live, mask, number, attempt)
        self._start(handout, number, terms)
        return handout

    def _start(self, handout: Handout, number: int, terms: Terms) -> None:
        ahead_ms = settling.ahead_ms(terms.lease_ms, terms.kept_alive)
        handout.lapse_ms = terms.now_ms + terms.lease_ms - ahead_ms
        handout.wanted = terms.wanted
        with handout.lane.lock:
            handout.claim.unbegun -= number
            handout.start(terms.lease_ms, ahead_ms, terms.kept_alive)

    def _begin_ticket(
        self,
        ticket: Ticket,
        definition: QueueDefinition,
        terms: Terms,
        begun: list[tuple[Handout, Ticket]],
    ) -> None:
        live = ticket.live
        self.waiting -= 1
        lapse_ms = live.lapse_ms if ticket.begin_by_ms is None else ticket.begin_by_ms
        if lapse_ms <= terms.now_ms:
            with live.lane.lock:
                live.leave(1, unbegun=1)
            return  # the process slept, or the wait was too long: it comes back by itself
        if not self._wanted(live, ticket.number, ticket.message, definition, terms, ticket):
            self.waiting += 1
            return
        handout = Handout(self, live, 1 << ticket.number, 1, ticket.attempt)
        handout.begin_by_ms = ticket.begin_by_ms
        if ticket.attempt > 1:
            handout.begin = Answer(live.lane.waiting)
        self._start(handout, 1, terms)
        begun.append((handout, ticket))

    def _begun(self, begun: list[tuple[Handout, Ticket]]) -> list[Delivery[Any]]:
        """The deliveries whose begun the log took in time; a first attempt does not wait for it,
        so that at most one delivery of a message can go uncounted."""
        found: list[Delivery[Any]] = []
        for handout, ticket in begun:
            try:
                if handout.begin is not None:
                    handout.begin.result(BEGIN_S)
            except (QueueError, TimeoutError):
                with handout.lane.lock:  # not beaten, or it would be kept from everyone
                    handout.leave(1)
                    handout.claim.leave(1)
                continue
            found.append(KafkaDelivery(handout, ticket.number, ticket.message))
        return found

    def _wanted(
        self,
        live: LiveClaim,
        index: int,
        message: Any,
        definition: QueueDefinition,
        terms: Terms,
        ticket: Ticket | None = None,
    ) -> bool:
        """Whether it is still to be handed out; purged and expired ones end here."""
        record = stored(message)
        void = is_void(record, definition.purged)
        if not void and not expired(record, terms.now_ms, definition):
            return True
        self.waiting -= 1
        handout = Handout(self, live, 0, 1, 1)
        with live.lane.lock:
            live.unbegun -= 1
        if void or not definition.dead_letter:
            handout.end(index)
        else:
            held = Held(live.claim.id, 1 << index, Action.BURY, reason=EXPIRED)
            handout.hold(held, leaves=True)
        return False

    def add_again(self, ticket: Ticket) -> None:
        with self.changed:
            heappush(self._later, ticket)
            self.changed.notify_all()

    # Closing.

    def give_back_waiting(self) -> None:
        """Give back what was not handed out."""
        left = self._empty()
        copies = [
            self.write(redelivery.given_back(stored(t.message), self.queue, t.attempt, t.due_ms))
            for t in left
        ]
        until = time.monotonic() + GIVE_BACK_S
        for ticket, copy in zip(left, copies, strict=True):
            wait_for(copy, until)
            Handout(self, ticket.live, 0, 1, 1).end(ticket.number)

    def _empty(self) -> list[Ticket]:
        """Take everything out; nothing of it is beaten any more, so that what cannot be given
        back comes back by itself."""
        with self.changed:
            left = [
                Ticket(0, 0, chunk.live, i, chunk.messages[i], 1, None)
                for chunk in self._chunks
                for i in chunk.indexes[chunk.next :]
            ]
            left += self._tickets + self._later
            self._chunks.clear()
            self._tickets, self._later = [], []
            self.waiting = 0
        for ticket in left:
            with ticket.live.lane.lock:
                ticket.live.unbegun -= 1
        return left

    def fail(self, error: QueueError) -> None:
        """Nothing more will come: whoever waits is told why."""
        with self.changed:
            self.failure = error
            self.changed.notify_all()

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify_all()


def _not_plain(messages: list[Any]) -> dict[int, Meta]:
    """By index, what is said of messages that are not plain."""
    if not any(map(Message.headers, messages)):
        return {}
    said = {i: tuple(headers) for i, m in enumerate(messages) if (headers := m.headers())}
    metas = {i: header.split(headers)[0] for i, headers in said.items()}
    return {i: meta for i, meta in metas.items() if meta != PLAIN}


def _at(messages: list[Any], indexes: range | list[int]) -> list[Any]:
    if isinstance(indexes, range):
        return messages[indexes.start : indexes.stop]
    return [messages[i] for i in indexes]
