"""The tracker of the memory broker: the same fold and the same rules as Spark's, step by step.

Time goes by in steps, each with the beats of live workers and a tick, as if the tracker had run
all along: moving the clock by hours ends as hours of ticks would.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Protocol

from msgspec.structs import replace

from marq.core import names
from marq.core.catalog.definitions import Catalog, QueueDefinition
from marq.core.fate import act, halves, redelivery
from marq.core.fate.redelivery import Context, Fate, Outcome
from marq.core.fold.fold import GRACE_MS, JUMP_MS, Record, fold
from marq.core.fold.overdue import Due, Event, Overdue, emit, next_lapse_ms
from marq.core.fold.parked import NEVER_MS
from marq.core.fold.state import OpenClaim, State
from marq.core.markers import codec
from marq.core.markers.marker import (
    Action,
    ClaimId,
    HeldParked,
    Hold,
    KeepAlive,
    Marker,
    Parked,
    Part,
    Tick,
)
from marq.core.messages import header
from marq.core.messages.header import Headers
from marq.core.messages.stored import Outgoing, Stored
from marq.core.subject import Subject
from marq.memory.log import Log

_MOST_ASKED = 10_000
"""Requests that wait for a member; what is lost is asked again."""


class LivingHalves(Protocol):
    """Half messages whose owners live."""

    def next_ms(self) -> int:
        """When one of them is to be extended next."""
        ...

    def extended(self, now_ms: int) -> tuple[HeldParked, ...]:
        """Those that are to be extended now."""
        ...


class NothingKept:
    """There are no half messages."""

    def next_ms(self) -> int:
        return NEVER_MS

    def extended(self, now_ms: int) -> tuple[HeldParked, ...]:
        return ()


class MemoryTracker:
    """Folds the hold logs and acts on what is overdue."""

    def __init__(self, log: Log, catalog: Catalog, start_ms: int, random: Random) -> None:
        self._log = log
        self._catalog = catalog
        self._random = random
        self.markers, self.delayed = State(), State()
        self.worker = random.getrandbits(64)
        self.kept: LivingHalves = NothingKept()
        """Half messages in the hands of their owners."""
        self.asked: dict[str, deque[Stored]] = {}
        """By topic, what producer groups are asked."""
        self._tick_in(start_ms)

    def _tick_in(self, start_ms: int) -> None:
        """Tick for a while before the start: a fold that has just begun gives no lease up."""
        for at_ms in (*range(start_ms - GRACE_MS - JUMP_MS, start_ms, JUMP_MS), start_ms):
            self._log.now_ms = at_ms
            self._tick()
        self.run()

    def catch_up(self, now_ms: int) -> None:
        """Let time go by up to now; everything due on the way happens in order."""
        while self._log.now_ms < now_ms:
            self._log.now_ms = self._next_step_ms(now_ms)
            self._beat()
            self._tick()
            self.run()

    def _next_step_ms(self, now_ms: int) -> int:
        """As far as time may go in one step.

        Far from anything that happens it may jump. After a jump the fold gives no lease up for a
        while: so the jump ends that much earlier, and small steps lead on.
        """
        at_ms = self._log.now_ms
        goal_ms = min(now_ms, max(at_ms + 1, self._next_event_ms()))
        far_ms = goal_ms - GRACE_MS - JUMP_MS
        return far_ms if far_ms > at_ms + JUMP_MS else min(goal_ms, at_ms + self._small_step_ms())

    def _next_event_ms(self) -> int:
        """When something happens that no beat of a live worker puts off."""
        leased = (
            part.lapse_ms
            for claim in self.markers.claims.values()
            for part in claim.parts
            if not self._is_kept(claim, part)
        )
        return min((*leased, self.kept.next_ms(), next_lapse_ms(self.delayed) or NEVER_MS))

    def _small_step_ms(self) -> int:
        """Short enough for every beat to come in time."""
        leases_ms = (p.lease_ms for c in self.markers.claims.values() for p in c.parts)
        return min(JUMP_MS, max(1, min(leases_ms, default=NEVER_MS) // 8))

    def _is_kept(self, claim: OpenClaim, part: Part) -> bool:
        own = claim.id.worker == self.worker
        return own and part.kept_alive and part.action is Action.EXPIRE

    def next_ms(self) -> int | None:
        """When something happens by itself next."""
        found = [next_lapse_ms(self.markers), next_lapse_ms(self.delayed)]
        return min((at_ms for at_ms in found if at_ms is not None), default=None)

    def write(self, marker: Marker) -> None:
        """Append a marker and fold it."""
        value = codec.encode(marker)
        stored = self._log.append(Outgoing(names.MARKERS, 0, None, value, ()))
        self._fold(self.markers, stored, codec.decode(value))

    def append(self, record: Outgoing) -> Stored:
        """Append a message."""
        return self._log.append(record)

    def park(self, record: Outgoing) -> Stored:
        """Append a parked message and fold it."""
        stored = self._log.append(record)
        self._fold_parked(stored)
        return stored

    def hold_parked(self, marker: Marker) -> None:
        """Append a marker about parked messages and fold it."""
        value = codec.encode(marker)
        stored = self._log.append(Outgoing(names.DELAYED, 0, None, value, ()))
        self._fold(self.delayed, stored, codec.decode(value))

    def run(self) -> None:
        """Act until nothing is overdue."""
        while events := [*emit(self.markers), *emit(self.delayed)]:
            outcomes = [self._outcome(event) for event in events]
            for outcome in outcomes:
                self._write(outcome)
            self._say(list(zip(events, outcomes, strict=True)))

    def _say(self, done: list[tuple[Event, Outcome]]) -> None:
        ended = [event for event, outcome in done if outcome.hold is None]
        ends = act.ends(ended)
        if ends.steps:
            self.write(ends)
        if ends.parked:
            self.hold_parked(ends)
        if held := tuple(outcome.hold for _, outcome in done if outcome.hold is not None):
            self.hold_parked(Hold(parked=held, by_tracker=True))
        for event in ended:
            self._let_go(event)

    def _outcome(self, event: Event) -> Outcome:
        if isinstance(event, Due):
            return self._release(event)
        found = self._log.with_id(event.source.topic_id)
        record = found and found[1].partitions[event.source.partition].get(event.offset)
        context = self._context(event.source.queue)
        if not record:
            return redelivery.gone(event, context)
        return redelivery.resolve(event, record, context)

    def _release(self, event: Due) -> Outcome:
        stored = self._log.create(names.DELAYED, 1).partitions[0].get(event.ref.offset)
        assert stored is not None, "an open parked message is never let go"
        meta = stored.meta()
        context = self._context(meta.queue)
        partitions = context.definition.partitions if context.definition else 1
        placed = names.key_partition(stored.key or stored.address.encode(), partitions)
        if meta.half:
            found = self._catalog.producer_group(meta.half.group)
            asks = names.DEFAULT.checks(meta.half.group) if found else ""
            context = replace(context, made=self._catalog.made(meta.queue), checks=asks)
            return halves.decided(event, stored, meta.half, placed, context)
        return redelivery.release(event, stored, placed, context)

    def _context(self, queue: str) -> Context:
        return Context(queue, self.definition(queue), self._log.now_ms, self._random.random())

    def definition(self, queue: str) -> QueueDefinition | None:
        """The definition of a queue, or of a queue's dead letters."""
        return self._catalog.definition_of(Subject(queue))

    def _write(self, outcome: Outcome) -> None:
        if outcome.record is None:
            return
        if outcome.record.topic == names.DELAYED:
            self.park(outcome.record)
        elif outcome.fate is Fate.ASKED:
            record = outcome.record
            asked = self.asked.setdefault(record.topic, deque(maxlen=_MOST_ASKED))
            asked.append(Stored(record.topic, 0, 0, self._log.now_ms, *_content(record)))
        else:
            self._log.append(outcome.record)

    def _let_go(self, event: Event) -> None:
        if isinstance(event, Overdue):
            self.let_go(event.source.topic_id, event.source.partition, event.offset)
        else:
            self._log.create(names.DELAYED, 1).partitions[0].drop(event.ref.offset)

    def let_go(self, topic_id: bytes, partition: int, offset: int) -> None:
        """Drop the payload of what has ended."""
        if found := self._log.with_id(topic_id):
            found[1].partitions[partition].drop(offset)

    def _beat(self) -> None:
        own = sorted(claim.sequence for claim in self._own_claims())
        if own:
            self.write(KeepAlive(self.worker, tuple(own)))
        if extended := self.kept.extended(self._log.now_ms):
            self.hold_parked(Hold(parked=extended))

    def _own_claims(self) -> list[ClaimId]:
        return [claim for claim in self.markers.claims if claim.worker == self.worker]

    def _tick(self) -> None:
        self.write(Tick())
        self.hold_parked(Tick())

    def _fold_parked(self, stored: Stored) -> None:
        meta = stored.meta()
        self._fold(self.delayed, stored, header.parked(meta))

    def _fold(self, state: State, stored: Stored, body: Marker | Parked) -> None:
        fold(state, [Record(stored.offset, stored.at_ms, body)])
        if not isinstance(body, Parked):  # folded, and nobody else reads it
            self._log.create(stored.topic, 1).partitions[0].drop(stored.offset)


def _content(record: Outgoing) -> tuple[bytes | None, bytes | None, Headers]:
    return record.key, record.value, record.headers
