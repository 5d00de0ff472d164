"""Performs the events of one hold-log partition.

1. Open the partition's transactional producer: whatever an earlier act began is over.
2. Read the log from the batch's end to the high watermark found now, and drop every event that has
   an end, a new claim or a hold of the tracker's there.
3. In transactions: the copies or dead letters, and the ends of the entries they are for.

Crash windows: before 3 nothing was written; inside a transaction it is aborted, by the next
opening or by the broker; after it the ends are in the log, and 2 finds them whenever the batch is
run again. So each expiry is acted on once, whatever Spark replays. Whatever act neither ends nor
drops, it answers with a hold: one bad entry never stops a partition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from marq.core import act, codec, names, redelivery
from marq.core.batch import Batch
from marq.core.catalog import Catalog
from marq.core.fold import Record
from marq.core.marker import Marker, Restate
from marq.core.overdue import Due, Event
from marq.core.redelivery import Context, Fate, Outcome
from marq.core.restate import caught_up, parting
from marq.core.state import State
from marq.core.stored import Outgoing, Stored
from marq.errors import NotConnected
from marq.kafka.act import report
from marq.kafka.act.payloads import Found, Payloads
from marq.kafka.act.report import Report
from marq.kafka.act.tools import Tools
from marq.kafka.act.transactions import Superseded, Transactions, Unsure
from marq.kafka.reader import hold_record

UNDECIDED_S = 1.0
"""How long a transaction of someone else's in the log is waited for."""
LONGEST_TAIL = 100_000
"""Records. With a longer one the tracker is behind: to read it in every batch would cost more than
to catch up, so nothing is acted on until then."""
TRIES = 3
SOON_MS, LATER_MS = 1_000, 60_000
"""How long is put off what cannot be looked at now, and what no broker takes."""


class Act:
    """The act of one hold-log partition for one batch."""

    def __init__(
        self,
        place: tuple[str, int],
        batch: Batch,
        tools: Tools,
        catalog: Catalog,
        jitter: Callable[[], float],
        gone: Collection[bytes] = (),
    ) -> None:
        self._topic, self._partition = place
        self._batch = batch
        self._tools = tools
        self._catalog = catalog
        self._jitter = jitter
        self._gone = gone
        self._report = report.of(*place, batch)

    def perform(self) -> Report:
        """Do what the batch asks for, and say what was done.

        After an error that leaves it open what was written, all of it is done again: the tail
        tells. Fenced counts as such an error, for a broker also fences a producer whose
        transaction it gave up; of two trackers one ends soon, and until then both are harmless.
        """
        events = self._batch.events()
        if events or self._batch.restates:
            for left in reversed(range(TRIES)):
                try:
                    self._once(events)
                    break
                except (Superseded, Unsure, NotConnected):
                    if not left:
                        raise
        return self._report

    def _once(self, events: list[Event]) -> None:
        producer = self._tools.open(self._topic, self._partition)
        try:
            self._act(producer, events)
        finally:
            producer.close()

    def _act(self, producer: Transactions, events: list[Event]) -> None:
        tail = self._tail()
        if tail is None:
            return self._put_off(producer, events, SOON_MS)
        standing = act.standing(events, (record.body for record in tail))
        self._report.overtaken = len(events) - len(standing)
        known, newer = act.understood(standing, self._catalog)
        # Again and again, until the tracker is upgraded: it finds them as they were.
        self._put_off(producer, newer, LATER_MS)
        payloads = Payloads(self._tools, (self._topic, self._partition))
        for found in payloads.read(known):
            self._settle(producer, found)
        self._restate(producer, tail)

    def _tail(self) -> list[Record] | None:
        """The log from the batch's end to its high watermark; None: it cannot be read yet."""
        place, start = (self._topic, self._partition), self._batch.end
        end = self._tools.end(*place)
        if end - start > LONGEST_TAIL:
            return None
        seeker = self._tools.seeker
        found = [hold_record(m) for m in seeker.read([(*place, start, end)], UNDECIDED_S)]
        return found if start >= end or seeker.reached.get(place, start) >= end else None

    # Events.

    def _settle(self, producer: Transactions, found: Found) -> None:
        """Write what becomes of these and end them; what no broker takes holds nobody up."""
        outcomes = [self._outcome(event, stored) for event, stored in found]
        refused = self._write(producer, found, outcomes)
        if not refused:
            self._report.settled((event for event, _ in found), (o.fate for o in outcomes))
        elif len(found) == 1:
            self._settle_smaller(producer, *found[0], outcomes[0])
        else:
            for part in act.apart(len(found), refused):
                self._settle(producer, [found[number] for number in part])

    def _settle_smaller(
        self, producer: Transactions, event: Event, stored: Stored | None, outcome: Outcome
    ) -> None:
        """Bury what no broker takes; what not even so, put off."""
        outcome = self._smaller(event, stored, outcome)
        if self._write(producer, [(event, stored)], [outcome]):
            self._put_off(producer, [event], LATER_MS)
        else:
            self._report.settled((event,), (outcome.fate,))

    def _outcome(self, event: Event, stored: Stored | None) -> Outcome:
        context = self._context(event, stored)
        if stored is None:
            return redelivery.gone(event, context)
        if isinstance(event, Due):
            partitions = context.definition.partitions if context.definition else 1
            key = stored.address.encode() if stored.key is None else stored.key
            return redelivery.release(event, stored, names.key_partition(key, partitions), context)
        return redelivery.resolve(event, stored, context)

    def _context(self, event: Event, stored: Stored | None) -> Context:
        if isinstance(event, Due):
            queue = stored.meta().queue if stored else event.queue
        else:
            queue = event.source.queue
        definition = self._catalog.of_topic(queue)
        return Context(queue, definition, self._batch.clocks.clock_ms, self._jitter())

    def _smaller(self, event: Event, stored: Stored | None, outcome: Outcome) -> Outcome:
        """A dead letter instead of what no broker takes, without the history that fills it."""
        if outcome.fate is not Fate.BURIED and stored is not None and outcome.record is not None:
            reason = f"no broker takes its copy in {outcome.record.topic!r}: too large, or denied"
            outcome = redelivery.buried(stored, self._context(event, stored), reason)
        return Outcome(outcome.fate, outcome.record and redelivery.cut(outcome.record))

    def _write(self, producer: Transactions, found: Found, outcomes: list[Outcome]) -> set[int]:
        """Which of them no broker takes; then none was written."""
        if not found:
            return set()
        numbers = [number for number, outcome in enumerate(outcomes) if outcome.record]
        records = [self._placed(outcome.record) for outcome in outcomes if outcome.record]
        ends = self._marker(act.ends(event for event, _ in found))
        refused = producer.write([*records, ends])
        if len(records) in refused:  # their ends: that concerns all of them
            return set(range(len(found)))
        return {numbers[at] for at in refused}

    def _placed(self, record: Outgoing) -> Outgoing:
        """What is parked goes beside others of its key."""
        if record.topic != names.DELAYED:
            return record
        key = record.key or record.headers[0][1] or b""
        place = names.key_partition(key, self._tools.delayed_partitions)
        return Outgoing(record.topic, place, record.key, record.value, record.headers)

    def _put_off(self, producer: Transactions, events: list[Event], after_ms: int) -> None:
        if events:
            producer.write([self._marker(act.put_off(events, after_ms))])
            self._report.put_off += len(events)

    # Restating.

    def _restate(self, producer: Transactions, tail: list[Record]) -> None:
        """Write down what trimming would lose; only then may it happen."""
        clocks, end = self._batch.clocks, self._batch.end
        refused: set[int] = set()
        for value in self._batch.restates:
            restate = codec.decode(value)
            assert isinstance(restate, Restate)
            known = State(end, clocks.clock_ms, clocks.lease_clock_ms, clocks.grace_ms)
            said = parting(caught_up(restate, known, tail), self._gone)
            refused |= producer.write([self._marker(marker) for marker in said])
        if not refused:
            self._report.trim_to = self._batch.trim_to

    def _marker(self, marker: Marker) -> Outgoing:
        return Outgoing(self._topic, self._partition, None, codec.encode(marker), ())
