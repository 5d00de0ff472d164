"""Topics in memory: append-only, offsets never used twice, ids that tell two lives apart."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from marq.core.messages.stored import Outgoing, Stored


class Partition:
    """One append-only log; records that nobody needs any more are let go."""

    def __init__(self) -> None:
        self._records: dict[int, Stored] = {}
        self.end = 0

    def append(self, record: Outgoing, at_ms: int) -> Stored:
        stored = Stored(
            record.topic, record.partition, self.end, at_ms, record.key, record.value,
            record.headers,
        )  # fmt: skip
        self._records[self.end] = stored
        self.end += 1
        return stored

    def get(self, offset: int) -> Stored | None:
        return self._records.get(offset)

    def read(self, start: int, limit: int) -> list[Stored]:
        """At most `limit` records from `start` on."""
        found: list[Stored] = []
        for offset in range(start, self.end):
            if len(found) == limit:
                break
            if record := self._records.get(offset):
                found.append(record)
        return found

    def drop(self, offset: int) -> bool:
        """Delete a record; False if it was deleted before."""
        return self._records.pop(offset, None) is not None

    def __iter__(self) -> Iterator[Stored]:
        return iter(self._records.values())

    def __len__(self) -> int:
        return len(self._records)


class MemoryTopic:
    """A named set of partitions with an id of its own."""

    def __init__(self, topic_id: bytes, partitions: int) -> None:
        self.id = topic_id
        self.partitions = [Partition() for _ in range(partitions)]

    def __iter__(self) -> Iterator[Stored]:
        """All records, oldest first."""
        records = (record for partition in self.partitions for record in partition)
        return iter(sorted(records, key=lambda record: (record.at_ms, record.offset)))

    def __len__(self) -> int:
        return sum(len(partition) for partition in self.partitions)


class Log:
    """All topics."""

    def __init__(self) -> None:
        self._topics: dict[str, MemoryTopic] = {}
        self._ids = count(1)
        self.now_ms = 0
        """The append time of the next record."""

    def create(self, name: str, partitions: int) -> MemoryTopic:
        """The topic; made if there is none."""
        if name not in self._topics:
            self._topics[name] = MemoryTopic(next(self._ids).to_bytes(16, "big"), partitions)
        return self._topics[name]

    def delete(self, name: str) -> None:
        self._topics.pop(name, None)

    def topic(self, name: str) -> MemoryTopic | None:
        return self._topics.get(name)

    def with_id(self, topic_id: bytes) -> tuple[str, MemoryTopic] | None:
        """The topic of this id and its name."""
        return next((item for item in self._topics.items() if item[1].id == topic_id), None)

    def append(self, record: Outgoing) -> Stored:
        topic = self.create(record.topic, 1)
        return topic.partitions[record.partition].append(record, self.now_ms)
