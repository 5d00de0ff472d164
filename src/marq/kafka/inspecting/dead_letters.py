"""Dead letters on Kafka: sent again or discarded, each by the one who has claimed it first.

1. The markers are folded to their end: what is claimed by then is someone's, or has ended.
2. The rest is claimed, by runs of offsets, and the log is read up to these claims. Whoever is first
   in the log has the letter; nobody else touches it.
   Whoever dies here has sent nothing: the claim lapses, and the tracker brings the letter back to
   the dead letters, as it does with one that a receiver had.
3. To redrive, the copies are sent, if half of the lease is left.
   Whoever dies here, or never hears whether the log took a copy, may have sent it: the letter is in
   its queue and comes back to the dead letters too. So it is sent twice at most.
4. What was sent ends. Only what was won ends: what others have claimed is open under our claim as
   well, and its end would be taken for theirs.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from marq.core import names
from marq.core.fold.taking import Taking
from marq.core.markers import bits
from marq.core.markers.marker import Claim, ClaimId, Progress, Source, Step
from marq.core.messages.stored import Outgoing, Stored
from marq.errors import NotConnected, QueueError
from marq.kafka.client import config
from marq.kafka.client.seeker import Seeker
from marq.kafka.cluster.reader import hold_record
from marq.kafka.inspecting.letter_homes import Homes
from marq.message import Sent
from marq.receipt import Receipt

if TYPE_CHECKING:
    from marq.kafka.backend import Kafka

LEASE_MS = 30_000
"""How long a letter is away whose redriver has died. Nothing is sent in the second half."""

Place = tuple[str, int]
Again = Callable[[Stored], Outgoing]


class Run(NamedTuple):
    """Letters without a gap between them, and the claim they are taken by: a claim covers all
    between its first and last offset, so a gap could hide a letter that nobody takes."""

    letters: list[Stored]
    claim: Claim
    number: int
    """Of the markers partition."""


class Won(NamedTuple):
    """What is ours of a run."""

    letters: list[Stored]
    run: Run

    def ends(self, done: set[str]) -> Progress:
        """The record that ends what was done."""
        first = self.run.letters[0].offset
        mask = bits.of(each.offset - first for each in self.letters if each.address in done)
        return Progress((Step(self.run.claim.id, mask),))


class Taker:
    """Takes letters, as long as someone redrives or discards."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._topic_ids: dict[str, bytes | None] = {}
        self._takings: defaultdict[int, Taking] = defaultdict(Taking)
        self._seeker = Seeker(config.reader(kafka._servers, kafka._extra))

    def close(self) -> None:
        self._seeker.close()

    def settle(self, letters: list[Stored], again: Again | None) -> int:
        """Take these letters, send them again where it is said how, and end them; how many. Those
        that someone else has taken before are left alone."""
        until = time.monotonic() + LEASE_MS / 2_000
        won = self._take(letters, until)
        if again is None:
            return self._end(won, {each.address for found in won for each in found.letters})
        sent, failure = self._send([each for found in won for each in found.letters], again, until)
        done = self._end(won, sent)
        if failure is not None:
            raise failure
        return done

    # Taking.

    def _take(self, letters: list[Stored], until: float) -> list[Won]:
        places = {(each.topic, each.partition) for each in letters}
        numbers = {self._number(place) for place in places}
        self._read(numbers, 0.0)
        runs = [run for place in sorted(places) for run in self._runs(place, letters)]
        for run in runs:
            self._takings[run.number].ask(run.claim.id)
        answers = [self._kafka.markers.append(run.number, run.claim) for run in runs]
        for answer in answers:
            if not _within(until, answer.result):
                raise NotConnected("the markers log takes no claims: nothing was done")
        self._read({run.number for run in runs}, until - time.monotonic())
        if not all(self._takings[run.number].settled for run in runs):
            raise NotConnected(
                f"the markers log cannot be read to its end: nothing was done, and these dead "
                f"letters are back in {LEASE_MS // 1_000} s"
            )
        return [self._won(run) for run in runs]

    def _won(self, run: Run) -> Won:
        offsets = self._takings[run.number].won(run.claim.id)
        return Won([each for each in run.letters if each.offset in offsets], run)

    def _runs(self, place: Place, letters: list[Stored]) -> Iterator[Run]:
        """The letters of one partition that nobody has claimed yet, cut where there is a gap."""
        topic, partition = place
        if topic not in self._topic_ids:
            self._topic_ids[topic] = self._kafka.admin.topic_id(topic)
        topic_id = self._topic_ids[topic]
        if topic_id is None:
            return  # deleted, and its letters with it
        source, number = Source(topic_id, partition, topic, "", 0), self._number(place)
        there = {each.offset: each for each in letters if (each.topic, each.partition) == place}
        for offsets in _without_gaps(self._takings[number].free(source, sorted(there))):
            claim_id = ClaimId(self._kafka.markers.worker, next(self._kafka.sequence))
            runs = ((offsets[0], len(offsets)),)
            claim = Claim(claim_id, source, offsets[0], runs, LEASE_MS)
            yield Run([there[at] for at in offsets], claim, number)

    def _number(self, place: Place) -> int:
        return names.markers_partition(*place, self._kafka.markers_partitions)

    def _read(self, numbers: set[int], patience_s: float) -> None:
        """Fold what is new; with patience, also what lies behind transactions that are undecided
        now. Below the log's start there is nothing left that what follows does not say again."""
        starts = self._kafka.admin.starts(self._kafka.space.markers, self._kafka.markers_partitions)
        spans = [
            (
                self._kafka.space.markers,
                number,
                max(starts[number], self._takings[number].next_offset),
                self._kafka.admin.end(self._kafka.space.markers, number),
            )
            for number in sorted(numbers)
        ]
        for message in self._seeker.read(spans, max(0.0, patience_s)):
            self._takings[message.partition()].read((hold_record(message),))

    # What is done about what was won.

    def _send(
        self, letters: list[Stored], again: Again, until: float
    ) -> tuple[set[str], QueueError | None]:
        """Which of them were sent, and what is wrong with the first one that was not."""
        if letters and time.monotonic() > until:
            raise NotConnected(
                f"claiming dead letters took too long: nothing was sent, and they are back in "
                f"{LEASE_MS // 1_000} s"
            )
        failure: QueueError | None = None
        receipts: list[tuple[Stored, Receipt[Sent]]] = []
        for letter in letters:
            try:
                receipts.append((letter, self._kafka.sender.send(again(letter))))
            except QueueError as error:
                failure = failure or error
        sent: set[str] = set()
        for letter, receipt in receipts:
            try:
                _within(until, receipt.result)
                sent.add(letter.address)
            except QueueError as error:
                failure = failure or error
        return sent, failure

    def _end(self, won: list[Won], done: set[str]) -> int:
        """End them; late or not, for an end counts however late it comes."""
        answers = []
        for found in won:
            ends = found.ends(done)
            if count := ends.steps[0].ended.bit_count():
                answers.append((count, self._kafka.markers.append(found.run.number, ends)))
        until = time.monotonic() + self._kafka.connect_timeout_s
        for count, answer in answers:
            if not _within(until, answer.result):
                raise NotConnected(f"{count} dead letters are done and may come back: try again")
        return sum(count for count, _ in answers)


def _within(until: float, result: Callable[[float], object]) -> object:
    try:
        return result(max(0.0, until - time.monotonic()))
    except TimeoutError:
        raise NotConnected(
            "no broker has answered in time: what was claimed and not done comes back to the dead "
            "letters, and what may have been sent may be sent twice"
        ) from None


def _without_gaps(offsets: Iterable[int]) -> Iterator[list[int]]:
    run: list[int] = []
    for at in offsets:
        if run and at != run[-1] + 1:
            yield run
            run = []
        run.append(at)
    if run:
        yield run


def redrive(kafka: Kafka, chunks: Iterable[list[Stored]]) -> Iterator[int]:
    """Send letters to where they are read, chunk by chunk; how many of each."""
    homes, done = Homes(kafka), 0
    with closing(Taker(kafka)) as taker:
        for letters in chunks:
            found = taker.settle([each for each in letters if homes.has(each)], homes.again)
            done += found
            yield found
    homes.tell_who_stayed(done)


def discard(kafka: Kafka, chunks: Iterable[list[Stored]]) -> Iterator[int]:
    """End letters, chunk by chunk; how many of each."""
    with closing(Taker(kafka)) as taker:
        for letters in chunks:
            yield taker.settle(letters, None)
