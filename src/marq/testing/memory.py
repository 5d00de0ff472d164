"""The memory broker: the whole of marq in one process, on the same fold as the real one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from random import Random

from msgspec.structs import replace

from marq import forks
from marq.backend import Inbox
from marq.core import names
from marq.core.catalog import definitions
from marq.core.catalog.definitions import Catalog, QueueDefinition
from marq.core.fate import redelivery
from marq.core.fate.redelivery import AHEAD_MS, STRAIGHT_MS
from marq.core.markers import claimed
from marq.core.markers.marker import Action, HeldParked, Hold, ParkedRef, Progress, Step
from marq.core.messages import header
from marq.core.messages.header import Meta
from marq.core.messages.sending import Message
from marq.core.messages.stored import Outgoing, Stored, is_void
from marq.errors import ConfigError
from marq.message import Sent, Stats, moment
from marq.receipt import Answered, Receipt
from marq.testing.clock import Clock
from marq.testing.group import Group
from marq.testing.inbox import MemoryInbox
from marq.testing.log import Log, Topic
from marq.testing.tracker import Tracker


class Memory:
    """A backend in this process. One lock guards all of it; whoever calls lets time go by."""

    def __init__(self, clock: Clock | None = None, seed: int | None = None) -> None:
        self.space = names.DEFAULT
        self.clock = clock or Clock()
        self.random = Random(seed)
        self.log = Log()
        self._catalog = Catalog()
        self.changed = threading.Condition(threading.RLock())
        self.tracker = Tracker(self.log, self._catalog, self.clock.now_ms(), self.random)
        self._groups: dict[str, Group] = {}
        self._cancelled: set[ParkedRef] = set()
        self._sequence = count(1)
        self._turn = count()
        self.clock.moved = self._time_moved
        forks.tell(self)

    def forked(self) -> None:
        """A child has a copy of all of it, which nobody else would ever see."""
        self.changed = _Elsewhere()

    @contextmanager
    def caught_up(self) -> Iterator[None]:
        """Alone, at the present moment; whoever waits looks again afterwards."""
        with self.changed:
            self.tracker.catch_up(self.clock.now_ms())
            yield
            self.tracker.run()
            self.changed.notify_all()

    def now_ms(self) -> int:
        return self.clock.now_ms()

    # Queues.

    def catalog(self) -> Catalog:
        return self._catalog

    def change(self, name: str, definition: QueueDefinition | None, version: int) -> bool:
        with self.caught_up():
            if self._catalog.queue_version(name) != version:
                return False
            if definition is not None and self._catalog.queue(name) is None:
                # What is parked for an earlier queue of this name must never reach the new one.
                definition = replace(definition, purged=self._delayed_end())
            entry = self._catalog.change(name, definition)
            value = definitions.encode(entry)
            self.log.append(Outgoing(names.CATALOG, 0, name.encode(), value, ()))
            won = self._catalog.apply(definitions.decode(value))
            if definition is None:
                self.log.delete(name)
                if group := self._groups.pop(name, None):
                    group.close()
            else:
                self.log.create(name, definition.partitions)
            return won

    def purge(self, name: str) -> None:
        with self.caught_up():
            topic, definition = self._topic(name), self.definition(name)
            ends = {f"{name}:{n}": part.end for n, part in enumerate(topic.partitions)}
            purged = replace(definition, purged=ends | self._delayed_end())
            self.change(name, purged, self._catalog.queue_version(name))
            self.group(name).purge(purged)

    def definition(self, name: str) -> QueueDefinition:
        found = self.tracker.definition(name)
        if found is None:
            raise ConfigError(f"there is no queue {name!r}: it was deleted; create it again first")
        return found

    def group(self, name: str) -> Group:
        """What the consumers of the queue share."""
        if name not in self._groups:
            self._groups[name] = Group(name, self._topic(name), self.tracker, self._sequence)
        return self._groups[name]

    def inbox(self, queue: str) -> Inbox:
        return MemoryInbox(self, queue)

    def _topic(self, name: str) -> Topic:
        return self.log.create(name, self.definition(name).partitions)

    def _delayed(self) -> Topic:
        return self.log.create(names.DELAYED, 1)

    def _delayed_end(self) -> dict[str, int]:
        return {f"{names.DELAYED}:0": self._delayed().partitions[0].end}

    # Sending.

    def send(self, queue: str, message: Message) -> Receipt[Sent]:
        with self.caught_up():
            topic = self._topic(queue)
            wait_ms = message.delay_ms or max(0, message.due_ms - self.log.now_ms)
            meta = Meta(
                message_id=message.message_id,
                delay_ms=message.delay_ms,
                due_ms=message.due_ms,
                ttl_ms=message.ttl_ms,
            )
            if wait_ms >= STRAIGHT_MS:
                stored = self._park(queue, meta, message)
            else:
                headers = header.join(meta, message.headers)
                placed = self._place(message.key, len(topic.partitions))
                stored = self.log.append(
                    Outgoing(queue, placed, message.key, message.value, headers)
                )
        return Answered(_sent(stored))

    def send_bytes(self, queue: str, value: bytes) -> Receipt[Sent]:
        return self.send(queue, Message(value))

    def _park(self, queue: str, meta: Meta, message: Message) -> Stored:
        parked = replace(meta, queue=queue, ahead_ms=AHEAD_MS)
        headers = header.join(parked, message.headers)
        return self.tracker.park(Outgoing(names.DELAYED, 0, message.key, message.value, headers))

    def _place(self, key: bytes | None, partitions: int) -> int:
        return (
            next(self._turn) % partitions if key is None else names.key_partition(key, partitions)
        )

    def cancel(self, sent: Sent) -> bool:
        if sent.topic != names.DELAYED or sent.due is None:
            return False
        with self.caught_up():
            ref = ParkedRef(round(sent.due.timestamp() * 1_000), sent.offset)
            if ref in self._cancelled:
                return True
            if self.tracker.delayed.parked.get(ref) is None:
                return False
            self.tracker.hold_parked(Hold(parked=(HeldParked(ref, Action.CANCEL),)))
            cancelled = self.tracker.delayed.parked.get(ref) is None
            if cancelled:
                self._cancelled.add(ref)
                self._delayed().partitions[0].drop(sent.offset)
            return cancelled

    def flush(self, timeout_s: float | None) -> None:
        """Nothing to wait for: what was written is there."""

    # Dead letters.

    def peek(self, topic: str, limit: int) -> list[Stored]:
        with self.caught_up():
            taken = self._in_flight(topic)
            found = [stored for stored in self._topic(topic) if stored.address not in taken]
            return found[:limit]

    def redrive(self, chunks: Iterable[list[Stored]]) -> Iterator[int]:
        return self._settled(chunks, self._redrive)

    def discard(self, chunks: Iterable[list[Stored]]) -> Iterator[int]:
        return self._settled(chunks, self._end_letter)

    def _settled(
        self, chunks: Iterable[list[Stored]], settle: Callable[[Stored], bool]
    ) -> Iterator[int]:
        for letters in chunks:
            with self.caught_up():
                done = sum(map(settle, letters))
            yield done

    def _redrive(self, letter: Stored) -> bool:
        partitions = len(self._topic(redelivery.home_of(letter)).partitions)
        if not self._end_letter(letter):
            return False
        self.log.append(redelivery.redriven(letter, self._place(letter.key, partitions)))
        return True

    def _end_letter(self, letter: Stored) -> bool:
        """Claim and end one record, wherever the queue's consumers are."""
        if not self._topic(letter.topic).partitions[letter.partition].drop(letter.offset):
            return False
        claim = self.group(letter.topic).claim_records([letter], letter.offset)
        self.tracker.write(Progress((Step(claim, 1),)))
        return True

    def _in_flight(self, topic: str) -> set[str]:
        group = self.group(topic)
        waiting = {ticket.stored.address for ticket in group.waiting}
        below = (
            stored.address
            for stored in group.topic
            if stored.offset < group.positions[stored.partition]
        )
        return {address for address in below if address not in waiting}

    # Counting and closing.

    def stats(self, queue: str) -> Stats:
        with self.caught_up():
            definition, now_ms = self.definition(queue), self.log.now_ms
            in_flight = self._in_flight(queue)
            wanted = [s for s in self._topic(queue) if not is_void(s, definition.purged)]
            parked = [
                stored
                for stored in self._delayed()
                if stored.meta().queue == queue and not is_void(stored, definition.purged)
            ]
            held = self._held(queue)
            waiting = [stored for stored in wanted if stored.address not in in_flight - held]
            later = [s for s in waiting if s.address in held or s.meta().due_at(s.at_ms) > now_ms]
            dead = self.log.topic(names.dead_letters(queue))
            sent_ms = [s.meta().sent_ms or s.at_ms for s in (*wanted, *parked)]
            return Stats(
                ready=len(waiting) - len(later),
                in_flight=len(wanted) - len(waiting),
                delayed=len(parked) + len(later),
                dead=len(dead) if dead else 0,
                oldest_age=max(0, now_ms - min(sent_ms, default=now_ms)) / 1_000,
            )

    def counted(self, queue: str) -> Stats:
        return self.stats(queue)

    def _held(self, queue: str) -> set[str]:
        """What waits for its retry: it is still claimed, but in nobody's hands."""
        topic_id = self._topic(queue).id
        return {
            f"{queue}:{claim.source.partition}:{offset}"
            for claim in self.tracker.markers.claims.values()
            for part in claim.parts
            if claim.source.topic_id == topic_id and part.action is Action.REDELIVER
            for _, offset in claimed.numbered(claim.runs, part.indexes)
        }

    def crash_workers(self) -> None:
        """Let every worker of this process die as a killed process does: no more beats, nothing
        given back. Whoever takes messages from now on is a new worker."""
        with self.caught_up():
            self.tracker.worker = self.random.getrandbits(64)
            for group in self._groups.values():
                group.forget()

    def close(self) -> None:
        if not isinstance(self.changed, _Elsewhere):
            with self.changed:
                self.changed.notify_all()

    def _time_moved(self) -> None:
        with self.caught_up():
            pass


class _Elsewhere(threading.Condition):
    """In the place of the lock where the broker is another process's."""

    def __enter__(self) -> bool:
        raise ConfigError(
            "this memory:// broker is of the process that this one was forked from: connect here"
        )


def _sent(stored: Stored) -> Sent:
    due_ms = stored.meta().due_at(stored.at_ms)
    return Sent(
        stored.message_id(),
        stored.topic,
        stored.partition,
        stored.offset,
        moment(due_ms) if due_ms else None,
    )
