"""What became of every message sent, read from the logs alone.

A message is acked (claimed and ended), open (claimed and not ended) or waiting (at or above the
group's committed offset). One that is none of these is lost, and none may be.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from marq.core import names
from marq.core.fold.fold import Record, fold
from marq.core.fold.state import OpenClaim, State
from marq.core.markers import claimed, codec
from marq.core.markers.marker import Part
from marq.errors import MalformedMarker, NotAMarker
from marq.kafka.client import config
from marq.kafka.client.record import stored
from marq.kafka.cluster.admin import Admin

PATIENCE_S = 60.0


@dataclass(frozen=True)
class Findings:
    """Messages by id; one that has copies is what any of its records makes it."""

    sent: set[str] = field(default_factory=set)
    acked: set[str] = field(default_factory=set)
    open: set[str] = field(default_factory=set)
    waiting: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    """Addresses of records whose end is in the log."""
    records: int = 0

    @property
    def unfinished(self) -> set[str]:
        return self.open | self.waiting

    def __str__(self) -> str:
        return (
            f"{len(self.sent)} sent: {len(self.acked)} acked, {len(self.open)} open, "
            f"{len(self.waiting)} waiting, {len(self.lost)} lost"
        )


class Oracle:
    """Follows the markers and the topics it is asked about; each look reads only what is new."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._admin = Admin(config.common(servers, {}), PATIENCE_S)
        self._logs: dict[str, _Log] = {}
        self._states: list[State] = []

    def look(self, queue: str) -> Findings:
        """What became of the queue's messages. Good while workers run, too: offsets are read
        before the markers, so whatever is committed is in the markers read."""
        log = self._log(queue)
        log.read()
        topic_id = self._described(queue)[0]
        committed = self._admin.committed(
            names.DEFAULT.consumer_group(queue), queue, len(log.records)
        )
        self._fold()
        found = Findings(records=sum(map(len, log.records)))
        for partition, records in enumerate(log.records):
            ever, still = self._claims(topic_id, partition)
            for offset, message_id in records:
                found.sent.add(message_id)
                if offset >= committed[partition]:
                    found.waiting.add(message_id)
                elif offset in still:
                    found.open.add(message_id)
                elif any(start <= offset < end for start, end in ever):
                    found.ended.add(f"{queue}:{partition}:{offset}")
                else:
                    found.lost.add(message_id)
        found.acked.update(found.sent - found.unfinished - found.lost)
        return found

    def claims(self, queue: str) -> list[OpenClaim]:
        """The queue's open claims."""
        topic_id = self._described(queue)[0]
        self._fold()
        found = [claim for state in self._states for claim in state.claims.values()]
        return [claim for claim in found if claim.source.topic_id == topic_id]

    def parts(self, queue: str) -> list[Part]:
        """What the fold knows of the queue's open messages."""
        return [part for claim in self.claims(queue) for part in claim.parts]

    def holders(self, queue: str) -> set[int]:
        """The workers whose claims are open."""
        return {claim.id.worker for claim in self.claims(queue)}

    def close(self) -> None:
        for log in self._logs.values():
            log.close()

    def _described(self, topic: str) -> tuple[bytes, int]:
        found = self._admin.describe(topic)
        assert found, f"there is no topic {topic}"
        return found

    def _log(self, topic: str) -> _Log:
        if topic not in self._logs:
            self._logs[topic] = _Log(self._servers, topic, self._described(topic)[1])
        return self._logs[topic]

    def _fold(self) -> None:
        log = self._log(names.MARKERS)
        self._states = self._states or [State() for _ in log.records]
        for partition, message in log.read_messages():
            fold(self._states[partition], [_record(message)])

    def _claims(self, topic_id: bytes, partition: int) -> tuple[list[tuple[int, int]], set[int]]:
        """The runs ever claimed of a source partition, and the offsets still open."""
        ever: list[tuple[int, int]] = []
        still: set[int] = set()
        for state in self._states:
            for stream, known in state.claimed.items():
                if stream[:2] == (topic_id, partition):
                    ever += known.runs
            for claim in state.claims.values():
                if claim.source[:2] == (topic_id, partition):
                    still.update(at for _, at in claimed.numbered(claim.runs, claim.open))
        return ever, still


class _Log:
    """A topic from its start, each record read once."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self._topic = topic
        self._consumer = Consumer(config.reader(servers, {}))
        # Where it starts now: trackers of other tests on the same broker trim the hold logs.
        places = [TopicPartition(topic, n) for n in range(partitions)]
        self._next = [self._consumer.get_watermark_offsets(p, PATIENCE_S)[0] for p in places]
        starts = enumerate(self._next)
        self._consumer.assign([TopicPartition(topic, n, start) for n, start in starts])
        self.records: list[list[tuple[int, str]]] = [[] for _ in range(partitions)]
        """By partition: offset and message id."""

    def read(self) -> None:
        for partition, message in self.read_messages():
            self.records[partition].append((message.offset(), stored(message).message_id()))

    def read_messages(self) -> Iterator[tuple[int, Any]]:
        """What is new, up to the end as it is now."""
        ends = [
            self._consumer.get_watermark_offsets(TopicPartition(self._topic, n), PATIENCE_S)[1]
            for n in range(len(self._next))
        ]
        until = time.monotonic() + PATIENCE_S
        while any(at < end for at, end in zip(self._next, ends, strict=True)):
            assert time.monotonic() < until, f"{self._topic} cannot be read: {self._next} {ends}"
            for message in self._consumer.consume(10_000, 0.1):
                if message.error() is None:
                    partition, offset = message.partition(), message.offset()
                    assert partition is not None and offset is not None
                    self._next[partition] = offset + 1
                    yield partition, message

    def close(self) -> None:
        self._consumer.close()


def _record(message: Any) -> Record:
    try:
        body = codec.decode(message.value() or b"")
    except (NotAMarker, MalformedMarker):
        body = None
    return Record(message.offset(), message.timestamp()[1], body)
