"""Dead letters on Kafka: sent again or discarded, each by the one who has claimed it first.

1. The markers are folded to their end: what is claimed by then is someone's, or has ended.
2. The rest is claimed, few claims for many, and the log is read up to these. Whoever is first
   in the log has the letter; nobody else touches it.
   Whoever dies here has sent nothing: the claim lapses, and the tracker brings the letter back to
   the dead letters, as it does with one that a receiver had.
3. To redrive, the copies are sent, if half of the lease is left; what is too large stays, and keeps
   no other from being sent.
   Whoever dies here, or never hears whether the log took a copy, may have sent it: the letter is in
   its queue and comes back to the dead letters too. So it is sent twice at most.
4. What was sent ends. Only what was won ends: what others have claimed is open under our claim as
   well, and its end would count as theirs.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import NamedTuple

from marq.core.fold.taking import NEAR, Taking, lots
from marq.core.markers import claimed
from marq.core.markers.marker import Claim, ClaimId, Progress, Source, Step
from marq.core.markers.runs import Runs
from marq.core.messages.stored import Outgoing, Stored
from marq.core.subject import Subject
from marq.errors import NotConnected, PayloadError, QueueError
from marq.kafka.access import Access
from marq.kafka.client import config
from marq.kafka.client.seeker import Place, Seeker
from marq.kafka.cluster.reader import hold_record
from marq.kafka.inspecting.letter_homes import FindGroup, Homes
from marq.message import Sent
from marq.receipt import Receipt

LEASE_MS = 30_000
"""How long a letter is away whose redriver has died. Nothing is sent in the second half."""

Again = Callable[[Stored], Outgoing]


class Lot(NamedTuple):
    """Letters that are taken together, and the claim they are taken by: it covers all between its
    first and its last offset, so what lies there and is not among them is nobody's to take."""

    letters: list[Stored]
    claim: Claim
    number: int
    """Of the markers partition."""


class Won(NamedTuple):
    """What is ours of a lot."""

    letters: list[Stored]
    lot: Lot

    def ends(self, done: set[str]) -> Progress:
        """The record that ends what was done."""
        claim, mask = self.lot.claim, 0
        for at in (each.offset for each in self.letters if each.address in done):
            mask |= claimed.indexes(claim.runs, at, at + 1)
        return Progress((Step(claim.id, mask),))


class Taker:
    """Takes letters, as long as someone redrives or discards."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._topic_ids: dict[str, bytes | None] = {}
        self._takings: defaultdict[int, Taking] = defaultdict(Taking)
        self._seeker = Seeker(config.reader(access.servers, access.extra))
        self._glances = Seeker(config.glancing(access.servers, access.extra))
        self.too_large: list[tuple[Stored, PayloadError]] = []
        """Letters that stay, for their copies are refused, and why."""

    def close(self) -> None:
        self._seeker.close()
        self._glances.close()

    def settle(self, letters: list[Stored], again: Again | None) -> int:
        """Take these letters, send them again where it is said how, and end them; how many. Those
        that someone else has taken before are left alone."""
        until = time.monotonic() + LEASE_MS / 2_000
        won = self._take(letters, until)
        if again is None:
            return self._end(won, {each.address for found in won for each in found.letters})
        ours = [each for found in won for each in found.letters]
        if ours and time.monotonic() > until:
            raise NotConnected(
                f"claiming dead letters took too long: nothing was sent, and they are back in "
                f"{LEASE_MS // 1_000} s"
            )
        sent, failure = self._send(ours, again, until)
        done = self._end(won, sent)
        if failure is not None:
            raise failure
        return done

    # Taking.

    def _take(self, letters: list[Stored], until: float) -> list[Won]:
        places = {(each.topic, each.partition) for each in letters}
        numbers = {self._number(place) for place in places}
        self._read(numbers, 0.0)
        found = [lot for place in sorted(places) for lot in self._lots(place, letters)]
        for lot in found:
            self._takings[lot.number].ask(lot.claim.id)
        answers = [self._access.markers.append(lot.number, lot.claim) for lot in found]
        for answer in answers:
            if not _within(until, answer.result):
                raise NotConnected("the markers log takes no claims: nothing was done")
        self._read({lot.number for lot in found}, until - time.monotonic())
        if not all(self._takings[lot.number].settled for lot in found):
            raise NotConnected(
                f"the markers log cannot be read to its end: nothing was done, and these dead "
                f"letters are back in {LEASE_MS // 1_000} s"
            )
        return [self._won(lot) for lot in found]

    def _won(self, lot: Lot) -> Won:
        offsets = self._takings[lot.number].won(lot.claim.id)
        return Won([each for each in lot.letters if each.offset in offsets], lot)

    def _lots(self, place: Place, letters: list[Stored]) -> Iterator[Lot]:
        """The letters of one partition that nobody has claimed yet."""
        topic, partition = place
        if topic not in self._topic_ids:
            self._topic_ids[topic] = self._access.admin.topic_id(topic)
        topic_id = self._topic_ids[topic]
        if topic_id is None:
            return  # deleted, and its letters with it
        source, number = Source(topic_id, partition, topic, "", 0), self._number(place)
        there = {each.offset: each for each in letters if (each.topic, each.partition) == place}
        taking = self._takings[number]
        offsets = list(taking.free(source, sorted(there)))
        gaps = taking.gaps(source, offsets)
        for lot in lots(offsets, gaps, self._records(place, gaps)):
            claim_id = ClaimId(self._access.markers.worker, next(self._access.sequence))
            runs = tuple((low, high - low) for low, high in Runs((at, at + 1) for at in lot))
            claim = Claim(claim_id, source, lot[0], runs, LEASE_MS)
            yield Lot([there[at] for at in lot], claim, number)

    def _records(self, place: Place, gaps: list[list[int]]) -> set[int]:
        """Where in narrow gaps records lie: between letters that were buried one after the other
        lies what ends a transaction."""
        asked = {at for gap in gaps if len(gap) <= NEAR for at in gap}
        if not asked:
            return set()
        end = max(asked) + 1
        found = {each.offset() for each in self._glances.read([(*place, min(asked), end)])}
        return found & asked if self._glances.reached.get(place, 0) >= end else asked

    def _number(self, place: Place) -> int:
        topic, partition = place
        return Subject(topic).markers_partition(partition, self._access.markers_partitions)

    def _read(self, numbers: set[int], patience_s: float) -> None:
        """Fold what is new; with patience, also what lies behind transactions that are undecided
        now. Below the log's start there is nothing left that what follows does not say again."""
        starts = self._access.admin.starts(
            self._access.space.markers, self._access.markers_partitions
        )
        spans = [
            (
                self._access.space.markers,
                number,
                max(starts[number], self._takings[number].next_offset),
                self._access.admin.end(self._access.space.markers, number),
            )
            for number in sorted(numbers)
        ]
        for message in self._seeker.read(spans, max(0.0, patience_s)):
            self._takings[message.partition()].read((hold_record(message),))

    # What is done about what was won.

    def _send(
        self, letters: list[Stored], again: Again, until: float
    ) -> tuple[set[str], QueueError | None]:
        """Which of them were sent, and what is wrong with the first one that was not, but for those
        that are too large."""
        sending = [(letter, self._sending(letter, again)) for letter in letters]
        sent: set[str] = set()
        refused: list[Stored] = []
        failure: QueueError | None = None
        for letter, receipt in sending:
            try:
                _within(until, _result(receipt))
                sent.add(letter.address)
            except PayloadError as error:
                refused.append(letter)
                if len(letters) == 1:
                    self.too_large.append((letter, error))
            except QueueError as error:
                failure = failure or error
        # A broker refuses all that came with one that is too large: each again, alone.
        for letter in refused if len(letters) > 1 else ():
            alone, why = self._send([letter], again, until)
            sent |= alone
            failure = failure or why
        return sent, failure

    def _sending(self, letter: Stored, again: Again) -> Receipt[Sent] | QueueError:
        try:
            return self._access.sender.send(again(letter))
        except QueueError as error:
            return error

    def _end(self, won: list[Won], done: set[str]) -> int:
        """End them; late or not, for an end counts however late it comes."""
        answers = []
        for found in won:
            ends = found.ends(done)
            if count := ends.steps[0].ended.bit_count():
                answers.append((count, self._access.markers.append(found.lot.number, ends)))
        until = time.monotonic() + self._access.connect_timeout_s
        for count, answer in answers:
            if not _within(until, answer.result):
                raise NotConnected(f"{count} dead letters are done and may come back: try again")
        return sum(count for count, _ in answers)


def _result(receipt: Receipt[Sent] | QueueError) -> Callable[[float], object]:
    if isinstance(receipt, QueueError):
        raise receipt
    return receipt.result


def _within(until: float, result: Callable[[float], object]) -> object:
    try:
        return result(max(0.0, until - time.monotonic()))
    except TimeoutError:
        raise NotConnected(
            "no broker has answered in time: what was claimed and not done comes back to the dead "
            "letters, and what may have been sent may be sent twice"
        ) from None


def redrive(access: Access, find_group: FindGroup, chunks: Iterable[list[Stored]]) -> Iterator[int]:
    """Send letters to where they are read, chunk by chunk; how many of each."""
    homes, done = Homes(access, find_group), 0
    with closing(Taker(access)) as taker:
        for letters in chunks:
            found = taker.settle([each for each in letters if homes.has(each)], homes.again)
            done += found
            yield found
        homes.tell_who_stayed(done)
        _tell_what_was_too_large(taker.too_large, done)


def _tell_what_was_too_large(stayed: list[tuple[Stored, PayloadError]], done: int) -> None:
    if stayed:
        letter, error = stayed[0]
        raise PayloadError(
            f"{done:,} dead letters were redriven, {len(stayed):,} stay, the first of them "
            f"{letter.message_id()}: {error}",
            size=len(letter.value or b""),
        )


def discard(access: Access, chunks: Iterable[list[Stored]]) -> Iterator[int]:
    """End letters, chunk by chunk; how many of each."""
    with closing(Taker(access)) as taker:
        for letters in chunks:
            yield taker.settle(letters, None)
