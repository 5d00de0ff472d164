"""Half messages of the memory broker: their owners' hands, requests and answers."""

from __future__ import annotations

import time

from marq.backend import Asked, HalfSending, Requests, SeenHalf
from marq.core import names
from marq.core.catalog import definitions
from marq.core.catalog.definitions import Entry
from marq.core.fate import halves
from marq.core.fold.parked import NEVER_MS, Answers
from marq.core.markers.marker import (
    Action,
    Check,
    HalfAnswer,
    HeldParked,
    ParkedRef,
    Progress,
)
from marq.core.messages import header
from marq.core.messages.owned import Owned
from marq.core.messages.request import requested
from marq.core.messages.sending import Message
from marq.core.messages.stored import Outgoing, Stored
from marq.errors import ConfigError, MalformedMarker
from marq.memory.shared import Shared
from marq.receipt import Answered, Receipt


class MemoryHalf:
    """A half message in its owner's hands."""

    def __init__(self, halves: MemoryHalves, stored: Stored, terms: HalfSending) -> None:
        self._halves = halves
        self.stored = stored
        self.terms = terms
        after_ms = terms.half.check_after_ms
        self.ref = ParkedRef(stored.at_ms + after_ms, stored.offset)
        self.owned = Owned(self.ref, stored.at_ms + after_ms)
        self.until_ms = stored.at_ms + terms.timeout_ms
        self.extend_at_ms = stored.at_ms + self.every_ms

    @property
    def every_ms(self) -> int:
        return max(1, self.terms.half.check_after_ms // 4)

    @property
    def id(self) -> str:
        return self.stored.address

    def commit(self) -> Receipt[None]:
        return self._halves.commit(self)

    def rollback(self) -> Receipt[None]:
        return self._halves.rollback(self)

    def let_go(self) -> None:
        self._halves.kept.pop(self.ref, None)


class MemoryHalves:
    """All half messages of a memory broker."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.kept: dict[ParkedRef, MemoryHalf] = {}
        """In the hands of owners that live."""
        shared.tracker.kept = self

    # Owners that live.

    def next_ms(self) -> int:
        return min((half.extend_at_ms for half in self.kept.values()), default=NEVER_MS)

    def extended(self, now_ms: int) -> tuple[HeldParked, ...]:
        held = []
        for half in list(self.kept.values()):
            if now_ms < half.extend_at_ms:
                continue
            if now_ms >= half.until_ms:
                half.let_go()
                continue
            after_ms = half.terms.half.check_after_ms
            half.extend_at_ms = now_ms + half.every_ms
            half.owned.extended(now_ms, after_ms)
            held.append(HeldParked(half.ref, Action.EXTEND, after_ms))
        return tuple(held)

    # Producer groups.

    def open_group(self, queue: str, group: str) -> int:
        with self._shared.caught_up():
            catalog = self._shared.catalog
            found = catalog.producer_group(group)
            if found is not None and found[0] != queue:
                raise ConfigError(halves.of_another(group, found[0]))
            self._shared.definition(queue)
            if found is None:
                self._change(catalog.record_producer_group(group, queue))
            return catalog.made(queue)

    def delete_group(self, queue: str, group: str) -> None:
        with self._shared.caught_up():
            catalog = self._shared.catalog
            found = catalog.producer_group(group)
            if found is None or found[0] != queue:
                raise ConfigError(f"queue {queue!r} has no producer group {group!r} to delete")
            if number := sum(half.stored.meta().half.group == group for half in self.seen()):  # type: ignore[union-attr]
                raise ConfigError(halves.still_open(group, number))
            self._change(catalog.forget_producer_group(group))

    def _change(self, entry: Entry) -> None:
        value = definitions.encode(entry)
        self._shared.log.append(Outgoing(names.CATALOG, 0, entry.name.encode(), value, ()))
        self._shared.catalog.apply(definitions.decode(value))

    # Sending and deciding.

    def send(self, message: Message, terms: HalfSending, waits: bool) -> Receipt[MemoryHalf]:
        with self._shared.caught_up():
            self._shared.definition(terms.queue)
            group, wanted = terms.half.group, (terms.queue, terms.half.made)
            if self._shared.catalog.producer_group(group) != wanted:
                raise ConfigError(halves.deleted(group, terms.queue))
            meta = halves.half_meta(terms.queue, terms.half, message)
            headers = header.join(meta, message.headers)
            record = Outgoing(names.DELAYED, 0, message.key, message.value, headers)
            half = MemoryHalf(self, self._shared.tracker.park(record), terms)
            self.kept[half.ref] = half
            return Answered(half)

    def commit(self, half: MemoryHalf) -> Receipt[None]:
        with self._shared.caught_up():
            if half.owned.lapsed(self._shared.log.now_ms):
                self._answer(HalfAnswer((half.ref,), Check.COMMIT))
            else:
                self._finish(half)
            half.let_go()
        return Answered(None)

    def _finish(self, half: MemoryHalf) -> None:
        stored, tracker = half.stored, self._shared.tracker
        said, is_parked = halves.final(stored.address, stored.meta(), self._shared.log.now_ms)
        headers = header.join(said, stored.user_headers())
        if is_parked:
            tracker.park(Outgoing(names.DELAYED, 0, stored.key, stored.value, headers))
        else:
            topic = self._shared.topic(half.terms.queue)
            key = stored.address.encode() if stored.key is None else stored.key
            placed = names.key_partition(key, len(topic.partitions))
            record = Outgoing(half.terms.queue, placed, stored.key, stored.value, headers)
            self._shared.log.append(record)
        self._end(half.ref)

    def rollback(self, half: MemoryHalf) -> Receipt[None]:
        with self._shared.caught_up():
            self._end(half.ref)
            half.let_go()
        return Answered(None)

    def _end(self, ref: ParkedRef) -> None:
        self._shared.tracker.hold_parked(Progress(parked=(ref,)))
        self._drop_ended((ref,))

    def answer(self, partition: int, answer: HalfAnswer) -> Receipt[None]:
        with self._shared.caught_up():
            self._answer(answer)
        return Answered(None)

    def _answer(self, answer: HalfAnswer) -> None:
        self._shared.tracker.hold_parked(answer)
        self._drop_ended(answer.halves)

    def _drop_ended(self, refs: tuple[ParkedRef, ...]) -> None:
        log = self._shared.log.create(names.DELAYED, 1).partitions[0]
        for ref in refs:
            stored = log.get(ref.offset)
            is_open = self._shared.tracker.delayed.parked.get(ref) is not None
            if stored is not None and stored.meta().half and not is_open:
                log.drop(ref.offset)

    # Members.

    def requests(self, group: str) -> Requests:
        return MemoryRequests(self._shared, group)

    def seen(self) -> list[SeenHalf]:
        with self._shared.caught_up():
            log = self._shared.log.create(names.DELAYED, 1).partitions[0]
            found = []
            for entry in self._shared.tracker.delayed.parked:
                stored = log.get(entry.ref.offset)
                if stored is not None and stored.meta().half:
                    answers, decided = entry.half or Answers(), entry.action is not Action.CHECK
                    found.append(SeenHalf(stored, entry.ref, entry.tries, answers, decided))
        return sorted(found, key=lambda half: (half.stored.at_ms, half.stored.offset))


class MemoryRequests:
    """A member's end of a producer group."""

    def __init__(self, shared: Shared, group: str) -> None:
        self._shared = shared
        self._topic = names.DEFAULT.checks(group)
        self._closed = False

    def take(self, wait_s: float) -> list[Asked]:
        until = time.monotonic() + wait_s
        with self._shared.changed:
            while not self._closed:
                self._shared.tracker.catch_up(self._shared.clock.now_ms())
                asked = self._shared.tracker.asked.pop(self._topic, None)
                left_s = until - time.monotonic()
                if asked or left_s <= 0:
                    return [each for stored in asked or () if (each := _asked(stored))]
                self._shared.changed.wait(left_s)
        return []

    def close(self) -> None:
        self._closed = True
        self._shared.wake()


def _asked(stored: Stored) -> Asked | None:
    try:
        request, headers = requested(stored.key, stored.headers)
    except MalformedMarker:
        return None
    return Asked(request, headers, stored.value or b"")
