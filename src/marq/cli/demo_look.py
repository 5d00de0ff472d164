"""What the logs tell while the demo runs: acked, open and waiting, from a fold of the markers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from marq.core import names
from marq.core.state import State
from marq.kafka import counts
from marq.kafka.backend import Kafka


@dataclass(frozen=True, slots=True)
class Look:
    """A queue at one moment, as its logs have it."""

    sent: int
    claimed: int
    begun: int
    """Handed out and not acked."""
    open_of: Counter[int]
    """By worker: messages it claimed that are not acked."""
    passed: int
    """Messages below the offsets the group has committed: each of them must be claimed."""

    @property
    def open(self) -> int:
        return self.open_of.total()

    @property
    def acked(self) -> int:
        return self.claimed - self.open

    @property
    def waiting(self) -> int:
        return self.sent - self.claimed

    @property
    def lost(self) -> int:
        """Messages nobody would ever see again: passed by, and never claimed."""
        return max(0, self.passed - self.claimed)


def look(kafka: Kafka, queue: str) -> Look:
    """Read the offsets, then fold all markers from the first to the last."""
    topic_id, partitions = kafka.admin.describe(queue) or (b"", 0)
    committed = kafka.admin.committed(f"marq.{queue}", queue, partitions)
    states = kafka.reader.folded(names.MARKERS, kafka.markers_partitions)
    open_of: Counter[int] = Counter()
    begun = 0
    for claim in (claim for state in states for claim in counts.open_claims(state, topic_id)):
        open_of[claim.id.worker] += claim.open.bit_count()
        begun += sum(part.indexes.bit_count() for part in claim.parts if part.attempt)
    sent = sum(kafka.admin.ends(queue, partitions))
    claimed = sum(_claimed(state, topic_id) for state in states)
    return Look(sent, claimed, begun, open_of, sum(committed))


def _claimed(state: State, topic_id: bytes) -> int:
    return sum(
        end - start
        for stream, known in state.claimed.items()
        if stream[0] == topic_id
        for start, end in known.runs
    )


def markers(kafka: Kafka) -> int:
    """How many marker records there are."""
    return sum(kafka.admin.ends(names.MARKERS, kafka.markers_partitions))
