"""What a look at the logs tells: open messages from a fold, waiting ones from offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from marq.core.fold.state import OpenClaim, State
from marq.core.markers import claimed
from marq.core.markers.marker import Action, Part
from marq.core.markers.runs import Runs
from marq.core.messages.stored import Stored, is_void
from marq.core.subject import Subject
from marq.errors import ConfigError
from marq.kafka.access import Access
from marq.kafka.client.record import stored
from marq.message import Stats


@dataclass(frozen=True, slots=True)
class Look:
    """The logs at one moment, as far as they are about one topic."""

    topic: str
    starts: list[int]
    ends: list[int]
    claims: list[OpenClaim]
    ever: list[Runs]
    """By partition, the offsets ever claimed."""

    def parts(self) -> Iterable[Part]:
        return (part for claim in self.claims for part in claim.parts)

    def lowest(self, waiting_from: list[int]) -> dict[int, tuple[int, int]]:
        """By partition, where its oldest message lies that is open or waits."""
        lowest = {n: at for n, at in enumerate(waiting_from) if at < self.ends[n]}
        for claim in self.claims:
            number = claim.source.partition
            first, _ = next(claimed.offsets(claim.runs, claim.open))
            lowest[number] = min(first, lowest.get(number, first))
        return {number: (offset, offset + 1) for number, offset in lowest.items()}


def look(access: Access, topic: str, states: list[State]) -> Look:
    """What these states and the topic's offsets say of it."""
    found = access.admin.describe(topic)
    if found is None:
        raise ConfigError(f"there is no queue {topic!r}: it was deleted, or never created")
    topic_id, partitions = found
    ever = [Runs() for _ in range(partitions)]
    for state in states:
        for (source_id, number, _, _), runs in state.claimed.items():
            if source_id == topic_id and number < partitions:  # whoever claimed beyond them
                ever[number] = runs.runs
    return Look(
        topic=topic,
        starts=access.admin.starts(topic, partitions),
        ends=access.admin.ends(topic, partitions),
        claims=[
            claim
            for state in states
            for claim in state.claims.values()
            if claim.source.topic_id == topic_id and claim.source.partition < partitions
        ],
        ever=ever,
    )


def _waiting_from(access: Access, seen: Look) -> list[int]:
    """By partition, the offset from which on messages wait: neither polled nor purged."""
    topic, numbers = seen.topic, range(len(seen.starts))
    committed = access.admin.committed(access.space.consumer_group(topic), topic, len(numbers))
    purged = access.definition(topic).purged
    voided = [purged.get(f"{topic}:{number}", 0) for number in numbers]
    return [max(at) for at in zip(seen.starts, committed, voided, strict=True)]


def stats(access: Access, queue: str) -> Stats:
    """Counts of a queue, from its offsets and a fold of the markers."""
    states = access.reader.folded(access.space.markers, access.markers_partitions)
    seen = look(access, queue, states)
    begun = sum(part.indexes.bit_count() for part in seen.parts() if part.attempt)
    held = sum(p.indexes.bit_count() for p in seen.parts() if p.action is Action.REDELIVER)
    waiting_aside = access.reader.folded(access.space.delayed, access.markers_partitions)
    halves = sum(state.parked.halves.get(queue, 0) for state in waiting_aside)
    parked = sum(state.parked.counts.get(queue, 0) for state in waiting_aside)
    open_now = sum(part.indexes.bit_count() for part in seen.parts())
    waiting_from = _waiting_from(access, seen)
    pairs = zip(seen.ends, waiting_from, strict=True)
    waiting = sum(max(0, end - start) for end, start in pairs)
    return Stats(
        ready=waiting + open_now - begun,
        in_flight=begun - held,
        delayed=held + parked,
        dead=sum(1 for _ in _unclaimed(access, look(access, Subject(queue).letters, states))),
        oldest_age=_oldest_age(access, seen.topic, seen.lowest(waiting_from)),
        halves=halves,
    )


def _oldest_age(access: Access, topic: str, lowest: dict[int, tuple[int, int]]) -> float:
    oldest = [stored(message) for message in access.reader.read(topic, lowest)]
    sent_ms = [record.meta().sent_ms or record.at_ms for record in oldest]
    return max(0, access.now_ms() - min(sent_ms)) / 1_000 if sent_ms else 0.0


def peek(access: Access, topic: str, limit: int) -> Iterator[Stored]:
    """Messages that wait and are nobody's, oldest first; read as they are taken."""
    purged = access.definition(topic).purged
    seen = look(access, topic, _folds_of(access, topic))
    wanted = (record for record in _unclaimed(access, seen) if not is_void(record, purged))
    return islice(wanted, limit)


def _folds_of(access: Access, topic: str) -> list[State]:
    """The folds that know of the topic: of dead letters, one."""
    found = access.admin.describe(topic)
    all_of, partitions = access.markers_partitions, found[1] if found else 0
    numbers = {Subject(topic).markers_partition(number, all_of) for number in range(partitions)}
    return [access.reader.folded_one(access.space.markers, number) for number in sorted(numbers)]


def _unclaimed(access: Access, seen: Look) -> Iterator[Stored]:
    """What was never claimed: what is claimed is someone's or done."""
    spans = {
        number: (next((high for low, high in ever if low <= start < high), start), end)
        for number, (start, end, ever) in enumerate(
            zip(seen.starts, seen.ends, seen.ever, strict=True)
        )
    }
    for message in access.reader.in_time(seen.topic, spans):
        if message.offset() not in seen.ever[message.partition()]:
            yield stored(message)
