"""What becomes of each event of an act: each alone, whatever its record is made of.

The rules are pure and stand in `core.redelivery`. Here is what they need beside the message, and
what happens where they cannot say.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from msgspec import Struct

from marq.core import names
from marq.core.catalog.definitions import Catalog
from marq.core.catalog.entry import QUEUE
from marq.core.fate import halves, redelivery
from marq.core.fate.act import queue_of
from marq.core.fate.redelivery import Context, Fate, Outcome
from marq.core.fold.overdue import Due, Event
from marq.core.messages.header import PLAIN
from marq.core.messages.stored import Outgoing, Stored
from marq.core.subject import Subject
from marq.kafka.client.seeker import Place
from marq.kafka.tracker.act.tools import Tools

log = logging.getLogger("marq.tracker")


class Decided(Struct, frozen=True):
    """An event, its message if that is there, and what becomes of it; None: that cannot be said or
    written now."""

    event: Event
    stored: Stored | None
    outcome: Outcome | None

    @property
    def is_asked(self) -> bool:
        """Whether a producer group is asked, which the catalog has."""
        return self.outcome is not None and self.outcome.fate is Fate.ASKED

    @property
    def topic(self) -> str:
        """Where something is to be written; empty: nothing is."""
        return self.outcome.record.topic if self.outcome and self.outcome.record else ""

    @property
    def place(self) -> Place:
        """The partition that it is to be written to."""
        record = self.outcome.record if self.outcome else None
        return (record.topic, record.partition) if record else ("", 0)


class Deciding:
    """Decides for one act; `failed` counts the events that no rule could work out."""

    def __init__(
        self, tools: Tools, catalog: Catalog, clock_ms: int, jitter: Callable[[], float]
    ) -> None:
        self._tools = tools
        self._catalog = catalog
        self._clock_ms = clock_ms
        self._jitter = jitter
        self.failed = 0

    def decide(self, found: list[tuple[Event, Stored | None]]) -> list[Decided]:
        """What becomes of these."""
        decided = [Decided(event, stored, self._outcome(event, stored)) for event, stored in found]
        asked = {each.topic for each in decided if each.is_asked} - {""}
        topics = {each.topic for each in decided if not each.is_asked} - {""}
        missing = self._missing(topics) | self._tools.missing(asked)
        if not missing:
            return decided
        return [self._elsewhere(each) if each.topic in missing else each for each in decided]

    def smaller(self, decided: Decided) -> Decided:
        """A dead letter instead of what no broker takes, without the history that fills it."""
        outcome, stored = decided.outcome, decided.stored
        if outcome is not None and outcome.hold is not None:
            return _unasked(decided, outcome)
        if outcome is not None and outcome.fate is not Fate.BURIED and stored is not None:
            reason = f"no broker takes its copy in {decided.topic!r}: too large, or denied"
            outcome = redelivery.buried(stored, self._context(decided.event, stored), reason)
        if outcome is not None and outcome.record is not None:
            outcome = Outcome(outcome.fate, redelivery.cut(outcome.record))
        return Decided(decided.event, stored, outcome)

    def _outcome(self, event: Event, stored: Stored | None) -> Outcome | None:
        try:
            return self._placed(self._worked_out(event, stored))
        except Exception as error:  # no record may end what others wait for
            self.failed += 1
            log.warning("not worked out, so buried as it is: %s", event, exc_info=error)
            return self._unread(event, stored, f"{type(error).__name__}: {error}")

    def _worked_out(self, event: Event, stored: Stored | None) -> Outcome:
        context = self._context(event, stored)
        if stored is None:
            return redelivery.gone(event, context)
        if isinstance(event, Due):
            partitions = context.definition.partitions if context.definition else 1
            key = stored.address.encode() if stored.key is None else stored.key
            partition = names.key_partition(key, partitions)
            if half := stored.meta().half:
                return halves.decided(event, stored, half, partition, context)
            return redelivery.release(event, stored, partition, context)
        return redelivery.resolve(event, stored, context)

    def _context(self, event: Event, stored: Stored | None) -> Context:
        meta = stored.meta() if stored and isinstance(event, Due) else PLAIN
        queue = meta.queue or queue_of(event)
        return Context(
            queue,
            self._catalog.definition_of(Subject(queue)),
            self._clock_ms,
            self._jitter(),
            self._tools.space.delayed,
            self._catalog.made(queue) if meta.half else 0,
            self._checks(meta.half.group, queue) if meta.half else "",
        )

    def _checks(self, group: str, queue: str) -> str:
        """Where the members of a producer group are asked, if it is this queue's."""
        found = self._catalog.producer_group(group)
        return self._tools.space.checks(group) if found and found[0] == queue else ""

    def _placed(self, outcome: Outcome) -> Outcome:
        """What is parked goes beside others of its key."""
        record = outcome.record
        if record is None or record.topic != self._tools.space.delayed:
            return outcome
        key = record.key or record.headers[0][1] or b""
        place = names.key_partition(key, self._tools.delayed_partitions)
        parked = Outgoing(record.topic, place, record.key, record.value, record.headers)
        return Outcome(outcome.fate, parked)

    def _unread(self, event: Event, stored: Stored | None, why: str) -> Outcome | None:
        """A dead letter of which nothing was looked at; None: not even that can be made."""
        try:
            queue = queue_of(event)
            definition = self._catalog.definition_of(Subject(queue))
            if stored is None:
                return None
            if definition is not None and not definition.dead_letter:
                return Outcome(Fate.DROPPED)
            reason = f"marq could not work out what becomes of it: {why}"
            return Outcome(Fate.BURIED, redelivery.unread(stored, queue, reason))
        except Exception as error:
            log.warning("put off, for it cannot even be buried: %s", event, exc_info=error)
            return None

    def _missing(self, topics: set[str]) -> set[str]:
        """Those of these topics that are not there. One that belongs to no queue that this catalog
        ever had is not ours to write to, wherever it is: it may be another namespace's."""
        topics = topics - {self._tools.space.delayed}
        others = {topic for topic in topics if not self._catalog.version(QUEUE, names.home(topic))}
        return others | self._tools.missing(topics - others)

    def _elsewhere(self, decided: Decided) -> Decided:
        """A dead letter instead of what would go to a topic that is not there. Without the topic of
        dead letters too, a message waits; of one that is gone itself nothing is left to keep."""
        event, stored, outcome = decided.event, decided.stored, decided.outcome
        assert outcome is not None, "it has a topic"
        if outcome.hold is not None:
            return _unasked(decided, outcome)
        context = self._context(event, stored)
        if outcome.fate is not Fate.BURIED and stored is not None:
            outcome = redelivery.buried(stored, context, f"there is no topic {decided.topic!r}")
            if not outcome.record or not self._missing({outcome.record.topic}):
                return Decided(event, stored, outcome)
        is_half = stored is not None and stored.meta().half is not None
        if context.definition is None and (stored is None or is_half):
            log.warning("dropped, for queue, message and dead letters are gone: %s", event)
            return Decided(event, stored, Outcome(Fate.DROPPED))
        log.warning("put off, for there is no topic to write it to: %s", event)
        return Decided(event, stored, None)


def _unasked(decided: Decided, outcome: Outcome) -> Decided:
    """Where a request cannot be written, the next one comes in its time."""
    return Decided(decided.event, decided.stored, Outcome(outcome.fate, hold=outcome.hold))
