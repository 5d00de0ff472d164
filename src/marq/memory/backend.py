"""The memory broker: the whole of marq in one process, on the same fold as the real one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from random import Random

from msgspec.structs import replace

from marq.backend import Inbox
from marq.core import names
from marq.core.catalog import definitions
from marq.core.catalog.definitions import Catalog, QueueDefinition
from marq.core.fate import parking, redelivery
from marq.core.fold.parked import NEVER_MS
from marq.core.markers import claimed
from marq.core.markers.marker import Action, HeldParked, Hold, ParkedRef, Progress, Step
from marq.core.messages.sending import Message
from marq.core.messages.stored import PURGED_AT, Outgoing, Stored, is_void
from marq.core.subject import Subject
from marq.memory.clock import Clock
from marq.memory.halves import MemoryHalves
from marq.memory.inbox import MemoryInbox
from marq.memory.log import MemoryTopic
from marq.memory.shared import Shared
from marq.message import Sent, Stats, moment
from marq.receipt import Answered, Receipt


class Memory:
    """A backend in this process."""

    def __init__(self, clock: Clock | None = None, seed: int | None = None) -> None:
        self.space = names.DEFAULT
        self.clock = clock or Clock()
        self.shared = Shared(self.clock, Random(seed))
        self.halves = MemoryHalves(self.shared)
        self._cancelled: set[ParkedRef] = set()
        self._turn = count()
        self.clock.moved = self._time_moved

    def now_ms(self) -> int:
        return self.clock.now_ms()

    # Queues.

    def catalog(self) -> Catalog:
        return self.shared.catalog

    def change(self, name: str, definition: QueueDefinition | None, version: int) -> bool:
        with self.shared.caught_up():
            if self.shared.catalog.queue_version(name) != version:
                return False
            if definition is not None and self.shared.catalog.queue(name) is None:
                # What is parked for an earlier queue of this name must never reach the new one.
                definition = replace(definition, purged=self._delayed_end())
            entry = self.shared.catalog.change(name, definition)
            value = definitions.encode(entry)
            self.shared.log.append(Outgoing(names.CATALOG, 0, name.encode(), value, ()))
            won = self.shared.catalog.apply(definitions.decode(value))
            if definition is None:
                self.shared.log.delete(name)
                if reader := self.shared.readers.pop(name, None):
                    reader.close()
            else:
                self.shared.log.create(name, definition.partitions)
            return won

    def create_all(self, queues: Sequence[str], definition: QueueDefinition) -> None:
        for queue in queues:
            if self.catalog().queue(queue) is None:
                self.change(queue, definition, self.catalog().queue_version(queue))

    def purge(self, name: str) -> None:
        with self.shared.caught_up():
            topic, definition = self.shared.topic(name), self.shared.definition(name)
            ends = {f"{name}:{n}": part.end for n, part in enumerate(topic.partitions)}
            at = {PURGED_AT: self.shared.log.now_ms}
            purged = replace(definition, purged=ends | self._delayed_end() | at)
            self.change(name, purged, self.shared.catalog.queue_version(name))
            self.shared.reader(name).purge(purged)

    def inbox(self, queue: str) -> Inbox:
        return MemoryInbox(self.shared, queue)

    def _delayed(self) -> MemoryTopic:
        return self.shared.log.create(names.DELAYED, 1)

    def _delayed_end(self) -> dict[str, int]:
        return {f"{names.DELAYED}:0": self._delayed().partitions[0].end}

    # Sending.

    def send(self, queue: str, message: Message) -> Receipt[Sent]:
        with self.shared.caught_up():
            partitions = len(self.shared.topic(queue).partitions)
            record = parking.sent(queue, message, names.DELAYED, lambda: self.shared.log.now_ms)
            if record.topic == names.DELAYED:
                stored = self.shared.tracker.park(replace(record, partition=0))
            else:
                placed = self._place(record.key, partitions)
                stored = self.shared.log.append(replace(record, partition=placed))
        return Answered(_sent(stored))

    def send_at_once(self, queue: str, messages: Sequence[Message]) -> list[Receipt[Sent]]:
        return [self.send(queue, message) for message in messages]

    def send_bytes(self, queue: str, value: bytes) -> Receipt[Sent]:
        return self.send(queue, Message(value))

    def _place(self, key: bytes | None, partitions: int) -> int:
        return (
            next(self._turn) % partitions if key is None else names.key_partition(key, partitions)
        )

    def cancel(self, sent: Sent) -> bool:
        if sent.topic != names.DELAYED or sent.due is None:
            return False
        with self.shared.caught_up():
            ref = ParkedRef(round(sent.due.timestamp() * 1_000), sent.offset)
            if ref in self._cancelled:
                return True
            if self.shared.tracker.delayed.parked.get(ref) is None:
                return False
            self.shared.tracker.hold_parked(Hold(parked=(HeldParked(ref, Action.CANCEL),)))
            cancelled = self.shared.tracker.delayed.parked.get(ref) is None
            if cancelled:
                self._cancelled.add(ref)
                self._delayed().partitions[0].drop(sent.offset)
            return cancelled

    def flush(self, timeout_s: float | None) -> None:
        """Nothing to wait for: what was written is there."""

    def groups(self) -> None:
        """Ordered groups need Kafka."""

    # Dead letters.

    def peek(self, topic: str, limit: int) -> list[Stored]:
        with self.shared.caught_up():
            taken = self._in_flight(topic)
            found = [stored for stored in self.shared.topic(topic) if stored.address not in taken]
            return found[:limit]

    def redrive(self, chunks: Iterable[list[Stored]]) -> Iterator[int]:
        return self._settled(chunks, self._redrive)

    def discard(self, chunks: Iterable[list[Stored]]) -> Iterator[int]:
        return self._settled(chunks, self._end_letter)

    def _settled(
        self, chunks: Iterable[list[Stored]], settle: Callable[[Stored], bool]
    ) -> Iterator[int]:
        for letters in chunks:
            with self.shared.caught_up():
                done = sum(map(settle, letters))
            yield done

    def _redrive(self, letter: Stored) -> bool:
        partitions = len(self.shared.topic(redelivery.home_of(letter)).partitions)
        if not self._end_letter(letter):
            return False
        self.shared.log.append(redelivery.redriven(letter, self._place(letter.key, partitions)))
        return True

    def _end_letter(self, letter: Stored) -> bool:
        """Claim and end one record, wherever the queue's consumers are."""
        if not self.shared.topic(letter.topic).partitions[letter.partition].drop(letter.offset):
            return False
        claim = self.shared.reader(letter.topic).claim_records([letter], letter.offset)
        self.shared.tracker.write(Progress((Step(claim, 1),)))
        return True

    def _in_flight(self, topic: str) -> set[str]:
        reader = self.shared.reader(topic)
        waiting = {ticket.stored.address for ticket in reader.waiting}
        below = (
            stored.address
            for stored in reader.topic
            if stored.offset < reader.positions[stored.partition]
        )
        return {address for address in below if address not in waiting}

    # Counting and closing.

    def stats(self, queue: str) -> Stats:
        with self.shared.caught_up():
            definition, now_ms = self.shared.definition(queue), self.shared.log.now_ms
            in_flight = self._in_flight(queue)
            wanted = [s for s in self.shared.topic(queue) if not is_void(s, definition.purged)]
            parked = [
                stored
                for stored in self._delayed()
                if stored.meta().queue == queue and not is_void(stored, definition.purged)
                if not stored.meta().half
            ]
            held = self._held(queue)
            waiting = [stored for stored in wanted if stored.address not in in_flight - held]
            due_ms = {s.address: s.meta().due_at(s.at_ms) for s in waiting}
            due_ms |= dict.fromkeys(held & due_ms.keys(), NEVER_MS)
            due_ms |= self.shared.reader(queue).due()  # retries wait there
            later = [s for s in waiting if due_ms[s.address] > now_ms]
            dead = self.shared.log.topic(Subject(queue).letters)
            sent_ms = [s.meta().sent_ms or s.at_ms for s in (*wanted, *parked)]
            return Stats(
                ready=len(waiting) - len(later),
                in_flight=len(wanted) - len(waiting),
                delayed=len(parked) + len(later),
                dead=len(dead) if dead else 0,
                halves=self.shared.tracker.delayed.parked.halves.get(queue, 0),
                oldest_age=max(0, now_ms - min(sent_ms, default=now_ms)) / 1_000,
            )

    def counted(self, queue: str) -> Stats:
        return self.stats(queue)

    def _held(self, queue: str) -> set[str]:
        """What waits for its retry: it is still claimed, but in nobody's hands."""
        topic_id = self.shared.topic(queue).id
        return {
            f"{queue}:{claim.source.partition}:{offset}"
            for claim in self.shared.tracker.markers.claims.values()
            for part in claim.parts
            if claim.source.topic_id == topic_id and part.action is Action.REDELIVER
            for _, offset in claimed.numbered(claim.runs, part.indexes)
        }

    def crash_workers(self) -> None:
        """Let every worker of this process die as a killed process does: no more beats, nothing
        given back. Whoever takes messages from now on is a new worker."""
        with self.shared.caught_up():
            self.shared.tracker.worker = self.shared.random.getrandbits(64)
            for reader in self.shared.readers.values():
                reader.forget()

    def close(self) -> None:
        self.shared.wake()

    def _time_moved(self) -> None:
        with self.shared.caught_up():
            pass


def _sent(stored: Stored) -> Sent:
    due_ms = stored.meta().due_at(stored.at_ms)
    return Sent(
        stored.message_id(),
        stored.topic,
        stored.partition,
        stored.offset,
        moment(due_ms) if due_ms else None,
    )
