"""A queue's topic as its pump needs it: which one it is now, and how far it was claimed."""

from __future__ import annotations

from marq.core.fold.counting import source_counts
from marq.core.subject import Subject
from marq.kafka.cluster.admin import Admin
from marq.kafka.cluster.reader import LogReader


class QueueTopic:
    """One topic, by its name: deleted and created again, it is another one."""

    def __init__(
        self, name: str, admin: Admin, reader: LogReader, markers: tuple[str, int]
    ) -> None:
        self.name = name
        self._admin = admin
        self._reader = reader
        self._markers, self._markers_partitions = markers

    def id(self) -> bytes | None:
        """Its id as the cluster says it; None: there is no such topic."""
        return self._admin.topic_id(self.name)

    def unclaimed_from(self, topic_id: bytes, partition: int, log_start: int) -> int:
        """From where on nobody has claimed anything; what lies below is the hold log's to bring
        back, or has ended."""
        number = Subject(self.name).markers_partition(partition, self._markers_partitions)
        state = self._reader.folded_one(self._markers, number)
        for count in source_counts(state, state.claimed):
            if (count.topic_id, count.partition, count.subscription) == (topic_id, partition, ""):
                return count.unclaimed_from(log_start)
        return log_start
