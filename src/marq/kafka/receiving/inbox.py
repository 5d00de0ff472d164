"""The inbox: claimed and committed messages of a queue, waiting to be handed out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import repeat
from typing import Any, Protocol

from marq.backend import Handing
from marq.core.catalog.definitions import QueueDefinition
from marq.core.fate import redelivery
from marq.core.messages.header import Meta
from marq.core.messages.stored import Outgoing
from marq.errors import QueueError
from marq.kafka.client.record import stored
from marq.kafka.leasing.desk import Desk
from marq.kafka.leasing.handout import Handout
from marq.kafka.leasing.live import LiveClaim
from marq.kafka.receiving.begin import Handouts, begin, deliveries, hold_until_due, is_wanted, start
from marq.kafka.receiving.delivery import KafkaDelivery
from marq.kafka.receiving.open_handout import OPEN, OpenHandout
from marq.kafka.receiving.room import Room, not_plain
from marq.kafka.receiving.tickets import GIVE_BACK_S, Terms, Ticket, TicketChunk, mask_of, wait_for
from marq.message import Delivery
from marq.receipt import Receipt

_LOOK_S = 0.5


class Supply(Protocol):
    """Where more messages come from: the pump, as whoever takes messages sees it."""

    def turn(self, waits: bool = False) -> bool:
        """Fetch more in passing; whether some are under way."""
        ...

    def call(self) -> None:
        """Have someone else fetch more."""
        ...


class KafkaInbox:
    """One queue's messages in this process."""

    def __init__(
        self,
        queue: str,
        definition: Callable[[], QueueDefinition],
        now_ms: Callable[[], int],
        write: Callable[[Outgoing], Receipt[Any]],
        random: Callable[[], float],
        flush: Callable[[Desk], None],
    ) -> None:
        self.queue = queue
        self.definition = definition
        self.now_ms = now_ms
        self.write = write
        self.random = random
        self._flush = flush
        self.lock = lock = threading.RLock()
        """Taken by itself and not by its conditions: an interrupt finds no step between taking it
        and being inside."""
        self.changed, self._arrived = threading.Condition(lock), threading.Condition(lock)
        """What the pump waits for, and what takers do."""
        self.room = Room()
        self._open: OpenHandout | None = None
        self.taken_at = time.monotonic()
        self._asked: dict[object, int] = {}
        """What those who wait have asked for; changed whole, without the lock."""
        self.torn = False
        """Whether someone was interrupted while he took: some messages may be nowhere."""
        self.missed = False
        """Whether the last to ask went away with nothing. One message is fetched for whoever asks
        next: those who look in only now and then would always come before a fetch is through."""
        self._taken = self.settled = 0
        self.starved = False
        """Whether someone waited for messages since the pump looked last."""
        self.failure: QueueError | None = None
        self.closed = False

    # Filling.

    def add(self, live: LiveClaim) -> None:
        """Take in the messages of a committed claim."""
        messages, metas = live.messages, not_plain(live.messages)
        self.room.add_plain(live, metas)
        if metas:
            self._add_others(live, metas)
        live.messages = []  # handed out, they are the deliveries' own: what is done is let go
        # Who comes to wait after this look has not looked in the room yet.
        if self.takers:
            with self.lock:
                self._arrived.notify(len(messages))

    def _add_others(self, live: LiveClaim, metas: dict[int, Meta]) -> None:
        with self.lock:
            now_ms = self.now_ms()
            held = list(self.room.add_others(live, metas, now_ms))
            self.room.move_due(now_ms)
        for ticket in held:
            hold_until_due(self, ticket)

    # Handing out.

    def at_hand(self, handing: Handing) -> Iterator[Delivery[Any]]:
        """The next ones of the open handout: without a lock, for many threads take one by one."""
        opened = self._open
        return iter(()) if opened is None else opened.each(handing)

    def take(
        self, limit: int, wait_s: float, handing: Handing, supply: Supply
    ) -> list[Delivery[Any]]:
        for delivery in self.at_hand(handing):
            return [delivery]
        at_once = limit if handing.at_once is None else min(limit, handing.at_once)
        definition = self.definition()  # not with the lock: once a second it asks a broker
        with self.lock:
            found, begun = self._take_now(at_once, handing, definition)
        if found:
            return found + deliveries(begun, self._flush) if begun else found
        if begun:
            return deliveries(begun, self._flush)
        return self._wait_and_take(at_once, limit, time.monotonic() + wait_s, handing, supply)

    def _wait_and_take(
        self, at_once: int, limit: int, until: float, handing: Handing, supply: Supply
    ) -> list[Delivery[Any]]:
        with self.wanting(limit):
            while True:
                under_way = supply.turn(waits=True)
                definition = self.definition()
                with self.lock:
                    found, begun = self._take_now(at_once, handing, definition)
                    if found or begun:
                        break
                    if not self._goes_on_waiting(until, handing, definition):
                        return []
                    if not under_way:
                        supply.call()
                        self._wait(until)
        return found + deliveries(begun, self._flush)

    @contextmanager
    def wanting(self, limit: int = 0) -> Iterator[None]:
        """While inside, someone wants messages: the pump joins the group if it has left."""
        mine = object()
        try:
            self._asked[mine] = limit
            with self.lock:
                self.changed.notify_all()
            yield
        finally:
            self._asked.pop(mine, None)  # at once: whatever is interrupted, nothing is fetched for
            self.taken_at = time.monotonic()

    @property
    def takers(self) -> int:
        return len(self._asked)

    @property
    def wanted(self) -> int:
        """Messages asked for by those who wait."""
        return sum(list(self._asked.values()))

    def wait_for_first(self, timeout_s: float) -> None:
        """Wait until there is something, or there would be by now."""
        with self.lock:
            self._arrived.wait_for(lambda: self.room.waiting or self.failure, timeout_s)

    def _goes_on_waiting(self, until: float, handing: Handing, definition: QueueDefinition) -> bool:
        """Whether something may still come; False: it is time to give up."""
        if self.failure is not None:
            raise self.failure
        is_late = until <= time.monotonic()
        if is_late or self.closed or self._must_make_way(handing, definition):
            self.missed = is_late
            return False
        self.starved = True
        return True

    def _wait(self, until: float) -> None:
        """Wait for something to change."""
        left = min(
            until - time.monotonic(), _LOOK_S
        )  # paused, resumed, deleted: the catalog tells, nobody wakes us
        if self.room.later:
            left = min(left, max(0.001, (self.room.later[0].due_ms - self.now_ms()) / 1_000))
        self._arrived.wait(left)

    def _must_make_way(self, handing: Handing, definition: QueueDefinition) -> bool:
        """Whether a suspect waits for all who wait here to be gone."""
        if handing.alone is not False or not self.room.suspects or definition.paused:
            return False
        self._arrived.notify_all()
        return True

    @property
    def waiting(self) -> int:
        """Messages that could be handed out now."""
        return self.room.waiting + self._joining()

    @property
    def taken(self) -> int:
        """Messages handed out so far: what prefetching goes by."""
        return self._taken - self._joining()

    def _joining(self) -> int:
        opened = self._open
        return opened.left if opened is not None else 0

    def suspects(self) -> int:
        return len(self.room.suspects)

    def _take_now(
        self, limit: int, handing: Handing, definition: QueueDefinition
    ) -> tuple[list[Delivery[Any]], Handouts]:
        try:
            return self._take_unless_interrupted(limit, handing, definition)
        except BaseException:
            self.torn = True
            raise

    def _take_unless_interrupted(
        self, limit: int, handing: Handing, definition: QueueDefinition
    ) -> tuple[list[Delivery[Any]], Handouts]:
        self._close_open()
        if definition.paused:
            return [], []
        now_ms = self.now_ms()
        lease_ms = definition.lease_ms if handing.lease_ms is None else handing.lease_ms
        terms = Terms(definition, lease_ms, handing.kept_alive, handing.wanted, now_ms)
        begun: Handouts = []
        found: list[Delivery[Any]] = []
        self.room.move_due(now_ms)
        while len(begun) < limit and (ticket := self.room.next_ticket(handing.alone)):
            begun += begin(self, ticket, terms)
        while self.room.chunks and len(found) + len(begun) < limit and not handing.alone:
            found += self._slice(limit - len(found) - len(begun), terms, handing)
        if found or begun:
            self._taken += len(begun) + len(found)
            self.taken_at = time.monotonic()
            self.missed = False
        return found, begun

    def _slice(self, limit: int, terms: Terms, handing: Handing) -> list[Delivery[Any]]:
        """The next plain messages of the first chunk."""
        chunk, indexes = self.room.take(limit)
        live = chunk.live
        if live.lapse_ms <= terms.now_ms:  # the process slept: someone else has them by now
            live.drop(len(indexes))
            return []
        purged_below = terms.definition.purged.get(f"{self.queue}:{live.partition}", 0)
        is_checked = terms.definition.ttl_ms is not None or live.start < purged_below
        if is_checked:
            indexes = [i for i in indexes if is_wanted(self, live, i, chunk.messages[i], terms)]
        if not indexes:
            return []
        handout = Handout(self, live, mask_of(indexes), len(indexes), 1)
        start(handout, terms)
        if handing.at_once == 1 and not is_checked and not chunk.is_empty:
            self._open_more(handout, handing)
        return list(map(KafkaDelivery, repeat(handout), indexes, chunk.at(indexes)))

    def _open_more(self, handout: Handout, handing: Handing) -> None:
        """Let the next ones of the chunk join the handout as they are taken."""
        chunk, indexes = self.room.take(OPEN)
        self._taken += len(indexes)
        handout.open_to(len(indexes))
        self._open = OpenHandout(handout, indexes, chunk.messages, handing)

    def _close_open(self) -> None:
        """Put back what nobody has taken of it."""
        opened, self._open = self._open, None
        if opened is None or not (rest := opened.close()):
            return
        live = opened.handout.claim
        self.room.put_back(TicketChunk(live, rest, opened.messages))
        self._taken -= len(rest)
        opened.handout.put_back(len(rest))

    @property
    def is_full(self) -> bool:
        """Whether no more should wait here for their time."""
        return self.room.is_full

    def hand_out_again(
        self,
        live: LiveClaim,
        index: int,
        message: Any,
        attempt: int,
        due_ms: int,
        begin_by_ms: int,
    ) -> None:
        """Hand it out again when it is due, if its lease begins by the other time."""
        arrival = self.room.next_arrival()
        ticket = Ticket(due_ms, arrival, live, index, message, attempt, begin_by_ms=begin_by_ms)
        with self.lock:
            self.room.wait(ticket)
            self._arrived.notify()

    # Closing.

    def give_back_waiting(self) -> None:
        """Give back what was not handed out; nothing of it is beaten any more, so that what
        cannot be given back comes back by itself."""
        with self.lock:
            self._close_open()
            left = self.room.empty()
        handouts = [Handout.aside(self, ticket.live) for ticket in left]
        copies = [self._sent_back(ticket) for ticket in left]
        until = time.monotonic() + GIVE_BACK_S
        failure: QueueError | None = None
        for ticket, handout, copy in zip(left, handouts, copies, strict=True):
            try:
                wait_for(copy, until)
                handout.end(ticket.number)
            except QueueError as error:  # of one: the others are someone else's at once
                failure = failure or error
        if failure is not None:
            raise failure

    def _sent_back(self, ticket: Ticket) -> Receipt[Any] | QueueError:
        """What tells whether a copy of it is in the log."""
        try:
            return self.write(self._given_back(ticket))
        except QueueError as error:
            return error

    def _given_back(self, ticket: Ticket) -> Outgoing:
        past = ticket.live.retried.get(ticket.number, ())
        return redelivery.given_back(
            stored(ticket.message), self.queue, ticket.attempt, ticket.due_ms, past
        )

    def drop_strays(self, claims: Iterable[LiveClaim]) -> None:
        """Let go of what an interrupt left neither waiting here nor in anyone's hands: beaten on,
        nobody would ever have it. By the pump, while nothing comes in."""
        with self.lock:
            waiting = self.room.recount()
            for live in claims:
                if live.claim.source.queue == self.queue:
                    live.drop(live.unbegun - waiting[live])
            self.torn = False

    def fail(self, error: QueueError) -> None:
        """Nothing more will come: whoever waits is told why."""
        with self.lock:
            self.failure = error
            self._wake_all()

    def close(self) -> None:
        with self.lock:
            self.closed = True
            self._wake_all()

    def _wake_all(self) -> None:
        self.changed.notify_all()
        self._arrived.notify_all()
