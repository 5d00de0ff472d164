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

import logging
import time
from collections.abc import Callable, Collection
from functools import partial

from marq.core.catalog.definitions import Catalog
from marq.core.fate import act
from marq.core.fold.batch import Batch
from marq.core.fold.fold import Record
from marq.core.fold.overdue import Event
from marq.core.fold.restate import SIZES, caught_up, parting, parts
from marq.core.fold.state import State
from marq.core.markers import codec
from marq.core.markers.marker import HeldParked, Marker, Restate
from marq.core.messages.stored import Outgoing
from marq.errors import NotConnected, UnknownMarkerVersion
from marq.kafka.client.refusals import Denied
from marq.kafka.client.transactions import Away, ProducerFenced, Transactions, Unsure
from marq.kafka.cluster.reader import hold_record
from marq.kafka.tracker.act import report
from marq.kafka.tracker.act.deciding import Decided, Deciding
from marq.kafka.tracker.act.payloads import Payloads
from marq.kafka.tracker.act.report import Report
from marq.kafka.tracker.act.tools import Tools

log = logging.getLogger("marq.tracker")

UNDECIDED_S = 1.0
"""How long a transaction of someone else's in the log is waited for."""
LONGEST_TAIL = 100_000
"""Records. With a longer one the tracker is behind: to read it in every batch would cost more than
to catch up, so nothing is acted on until then."""
TRIES = 3
SOON_MS, LATER_MS = 1_000, 60_000
"""How long is put off what cannot be looked at now, and what no broker takes."""
PATIENCE_S = 30.0
"""How long an event that ends an act is looked for."""
_NO_EVENT_S = (ProducerFenced, NotConnected, UnknownMarkerVersion, Denied)
"""Errors that are no single event's: another tracker, no broker, a log for a newer marq, a right
that is missing."""


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
        self._deciding = Deciding(tools, catalog, batch.clocks.clock_ms, jitter)
        self._gone = gone
        self._report = report.of(*place, batch)

    def perform(self) -> Report:
        """Do what the batch asks for, and say what was done.

        After an error that leaves it open what was written, all of it is done again: the tail
        tells. Fenced counts as such an error, for a broker also fences a producer whose
        transaction it gave up; of two trackers one ends soon, and until then both are harmless.
        """
        events = self._batch.events()
        if events or self._batch.restate:
            try:
                self._again_and_again(events)
            except _NO_EVENT_S:
                raise
            except Exception as error:
                by_queue = sorted(events, key=act.queue_of)
                self._one_by_one(by_queue, error, time.monotonic() + PATIENCE_S)
        self._report.failed += self._deciding.failed
        return self._report

    def _again_and_again(self, events: list[Event]) -> None:
        for left in reversed(range(TRIES)):
            try:
                return self._once(events)
            except (ProducerFenced, Unsure, NotConnected):
                if not left:
                    raise

    def _one_by_one(self, events: list[Event], error: Exception, until: float) -> None:
        """Find the event that the error comes from, by halves, and put it off: whatever it is made
        of, the others are performed. What was done before the error is found in the log.

        Where that takes too long, all of a part that fails are put off; events of one queue are
        together, so that these are mostly its own.
        """
        if not events:
            raise error
        if len(events) == 1 or time.monotonic() > until:
            log.warning(
                "put off %d, for they cannot be performed: %s ...",
                len(events),
                events[0],
                exc_info=error,
            )
            self._report.failed += len(events)
            return self._opened(partial(self._put_off, events=events, after_ms=LATER_MS))
        middle = len(events) // 2
        for half in (events[:middle], events[middle:]):
            try:
                self._opened(partial(self._settle_standing, events=half))
            except _NO_EVENT_S:
                raise
            except Exception as its:
                self._one_by_one(half, its, until)

    def _once(self, events: list[Event]) -> None:
        self._opened(partial(self._act, events=events))

    def _act(self, producer: Transactions, events: list[Event]) -> None:
        tail = self._settle_standing(producer, events)
        if tail is not None:
            self._restate(producer, tail)

    def _opened(self, step: Callable[[Transactions], object]) -> None:
        producer = self._tools.open(self._topic, self._partition)
        try:
            step(producer)
        finally:
            producer.close()

    def _settle_standing(self, producer: Transactions, events: list[Event]) -> list[Record] | None:
        """Settle what nothing in the log's tail speaks against; the tail, if it can be read."""
        tail = self._tail()
        if tail is None:
            self._put_off(producer, events, SOON_MS)
            return None
        standing = act.standing(events, (record.body for record in tail))
        self._report.overtaken = len(events) - len(standing)
        known, newer = act.understood(standing, self._catalog)
        # Again and again, until the tracker is upgraded: it finds them as they were.
        self._put_off(producer, newer, LATER_MS)
        payloads = Payloads(self._tools, (self._topic, self._partition))
        for found in payloads.read(known):
            decided = self._deciding.decide(found)
            self._put_off(producer, [d.event for d in decided if not d.outcome], LATER_MS)
            self._settle(producer, [d for d in decided if d.outcome])
        self._put_off(producer, payloads.unread, LATER_MS)
        self._tools.silence(payloads.silent)  # if it was the cluster, that could not be written
        return tail

    def _tail(self) -> list[Record] | None:
        """The log from the batch's end to its high watermark; None: it cannot be read yet."""
        place, start = (self._topic, self._partition), self._batch.end
        end = self._tools.end(*place)
        if end - start > LONGEST_TAIL:
            return None
        seeker = self._tools.seeker
        read = seeker.read([(*place, start, end)], UNDECIDED_S)
        found = [hold_record(message, self._tools.newer) for message in read]
        return found if start >= end or seeker.reached.get(place, start) >= end else None

    # Events.

    def _settle(self, producer: Transactions, decided: list[Decided]) -> None:
        """Write what becomes of these and end them; what no broker takes holds nobody up."""
        silent = self._tools.silent
        self._put_off(producer, [d.event for d in decided if d.place in silent], LATER_MS)
        decided = [d for d in decided if d.place not in silent]
        try:
            refused = self._write(producer, decided)
        except Away as error:
            log.warning("put off what goes there: %s", error)
            self._tools.silence(error.places)
            return self._settle(producer, decided)
        if not refused:
            self._count(decided)
        elif len(decided) == 1:
            self._settle_smaller(producer, decided[0])
        else:
            for part in act.apart(len(decided), refused):
                self._settle(producer, [decided[number] for number in part])

    def _settle_smaller(self, producer: Transactions, decided: Decided) -> None:
        """Bury what no broker takes; what not even so, put off."""
        smaller = self._deciding.smaller(decided)
        if self._is_refused(producer, smaller):
            log.warning(
                "put off, for no broker takes it in %r: too large, denied, or none is there: %s",
                smaller.topic,
                smaller.event,
            )
            self._put_off(producer, [smaller.event], LATER_MS)
        else:
            self._count([smaller])

    def _is_refused(self, producer: Transactions, decided: Decided) -> bool:
        if decided.place in self._tools.silent:
            return True
        try:
            return bool(self._write(producer, [decided]))
        except Away as error:
            self._tools.silence(error.places)
            return True

    def _count(self, decided: list[Decided]) -> None:
        self._report.settled(
            (each.event for each in decided), (d.outcome.fate for d in decided if d.outcome)
        )

    def _write(self, producer: Transactions, decided: list[Decided]) -> set[int]:
        """Which of them no broker takes; then none was written."""
        if not decided:
            return set()
        numbered = [
            (number, each.outcome.record)
            for number, each in enumerate(decided)
            if each.outcome and each.outcome.record
        ]
        said = [self._marker(marker) for marker in act.said(_outcomes(decided))]
        refused = producer.write([*(record for _, record in numbered), *said])
        own = set(range(len(numbered), len(numbered) + len(said)))
        if refused and refused <= own:
            return set(range(len(decided)))
        # What is said of them may have been in one batch with what was refused.
        return {numbered[at][0] for at in refused - own}

    def _put_off(self, producer: Transactions, events: list[Event], after_ms: int) -> None:
        if events:
            if producer.write([self._marker(act.put_off(events, after_ms))]):
                raise Unsure(f"{self._topic} takes no record")
            self._report.put_off += len(events)

    # Restating.

    def _restate(self, producer: Transactions, tail: list[Record]) -> None:
        """Write down what trimming would lose; only then may it happen."""
        if not self._batch.restate:
            return
        if self._is_said(producer, tail):
            self._report.trim_to = self._batch.trim_to
        else:
            log.warning("what must be in %r before it is trimmed cannot be written", self._topic)
            # It says nothing, but that this was tried: the fold asks for it again in a while.
            producer.write([self._marker(Restate(self._batch.end))])

    def _is_said(self, producer: Transactions, tail: list[Record]) -> bool:
        """Whether all that must be said was written; what keeps a log from being trimmed is no
        reason for time to stand still."""
        clocks, end = self._batch.clocks, self._batch.end
        known = State(end, clocks.clock_ms, clocks.lease_clock_ms, clocks.grace_ms)
        try:
            said = parting(caught_up(self._batch.restatement(), known, tail), self._gone)
            return all([self._say(producer, marker) for marker in said])
        except (*_NO_EVENT_S, Unsure):
            raise
        except Exception as error:
            log.warning("not worked out: what is to be written down", exc_info=error)
            self._report.failed += 1
            return False

    def _say(self, producer: Transactions, marker: Marker) -> bool:
        """Whether all of it was written, in records as small as it takes."""
        left = [marker]
        for most_bytes, spare in SIZES:
            smaller = [part for each in left for part in parts(each, most_bytes, spare)]
            left = [part for part in smaller if producer.write([self._marker(part)])]
        return not left

    def _marker(self, marker: Marker) -> Outgoing:
        return Outgoing(self._topic, self._partition, None, codec.encode(marker), ())


def _outcomes(decided: list[Decided]) -> list[tuple[Event, HeldParked | None]]:
    """The events, each with what holds it in the place of an end."""
    return [(each.event, each.outcome.hold if each.outcome else None) for each in decided]
