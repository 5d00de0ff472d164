"""What a look at the logs tells: open messages from a fold, waiting ones from offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from marq.core import claimed, names
from marq.core.marker import Action
from marq.core.runs import Runs
from marq.core.state import OpenClaim, State
from marq.core.stored import Stored
from marq.errors import ConfigError
from marq.kafka.delivery import stored
from marq.message import Stats

if TYPE_CHECKING:
    from marq.kafka.backend import Kafka


def stats(kafka: Kafka, queue: str) -> Stats:
    """Counts of a queue, from its offsets and a fold of the markers."""
    topic_id, partitions = _described(kafka, queue)
    ends = kafka.admin.ends(queue, partitions)
    committed = kafka.admin.committed(f"marq.{queue}", queue, partitions)
    states = kafka.reader.folded(names.MARKERS, kafka.markers_partitions)
    claims = [c for state in states for c in open_claims(state, topic_id)]
    begun = sum(
        part.indexes.bit_count() for claim in claims for part in claim.parts if part.attempt
    )
    held = sum(
        part.indexes.bit_count()
        for claim in claims
        for part in claim.parts
        if part.action is Action.REDELIVER
    )
    open_now = sum(claim.open.bit_count() for claim in claims)
    waiting = sum(max(0, end - max(0, at)) for end, at in zip(ends, committed, strict=True))
    return Stats(
        ready=waiting + open_now - begun,
        in_flight=begun - held,
        delayed=held,
        dead=dead(kafka, queue),
        oldest_age=0.0,
    )


def dead(kafka: Kafka, queue: str) -> int:
    """Dead letters of the queue."""
    topic = names.dead_letters(queue)
    found = kafka.admin.describe(topic)
    if found is None:
        return 0
    return len(peek(kafka, topic, 1 << 40))


def peek(kafka: Kafka, topic: str, limit: int) -> list[Stored]:
    """Messages that were never claimed, oldest first: what is claimed is someone's or done."""
    topic_id, partitions = _described(kafka, topic)
    claimed_runs = _claimed(kafka, topic_id, partitions)
    starts, ends = kafka.admin.starts(topic, partitions), kafka.admin.ends(topic, partitions)
    found = [
        stored(message)
        for number, end in enumerate(ends)
        for message in kafka.reader.read(topic, number, starts[number], end)
        if message.offset() not in claimed_runs[number]
    ]
    return sorted(found, key=lambda record: (record.at_ms, record.offset))[:limit]


def _claimed(kafka: Kafka, topic_id: bytes, partitions: int) -> list[Runs]:
    """By partition, the offsets ever claimed."""
    found = [Runs() for _ in range(partitions)]
    for state in kafka.reader.folded(names.MARKERS, kafka.markers_partitions):
        for (source_id, number, _, _), ever in state.claimed.items():
            if source_id == topic_id:
                found[number] = ever.runs
    return found


def open_claims(state: State, topic_id: bytes) -> list[OpenClaim]:
    """The open claims of a topic."""
    return [claim for claim in state.claims.values() if claim.source.topic_id == topic_id]


def open_offsets(kafka: Kafka, queue: str) -> dict[int, set[int]]:
    """By partition, the offsets that are claimed and have not ended."""
    topic_id, partitions = _described(kafka, queue)
    found: dict[int, set[int]] = {number: set() for number in range(partitions)}
    for state in kafka.reader.folded(names.MARKERS, kafka.markers_partitions):
        for claim in open_claims(state, topic_id):
            offsets = (offset for _, offset in claimed.numbered(claim.runs, claim.open))
            found[claim.source.partition].update(offsets)
    return found


def _described(kafka: Kafka, topic: str) -> tuple[bytes, int]:
    found = kafka.admin.describe(topic)
    if found is None:
        raise ConfigError(f"there is no queue {topic!r}: it was deleted, or never created")
    return found
