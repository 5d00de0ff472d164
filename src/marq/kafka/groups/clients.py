"""The librdkafka clients of ordered groups, and why they are set as they are."""

from __future__ import annotations

from typing import Any, NamedTuple

from marq.groups.names import GroupNames
from marq.kafka.client import config
from marq.kafka.client.making import Consumer, Producer, warm
from marq.kafka.cluster.admin import Admin

ClientSettings = dict[str, Any]
TRANSACTION_MS = 5_000
LARGEST = 64 * 1_048_576
"""Bytes of a copy: it has a header more than what the queue's own limit let through, and is not
compressed as that may have been."""
_QUICK: ClientSettings = {
    # With the default of 100 ms a transaction takes 103 ms, with this one 3.
    "retry.backoff.ms": 1,
    "retry.backoff.max.ms": 10,
}


class GroupClients(NamedTuple):
    """What clients are made for."""

    servers: str
    extra: ClientSettings
    admin: Admin
    replicas: int
    timeout_s: float

    def __repr__(self) -> str:
        """Without the settings: a password is among them."""
        return f"{type(self).__name__}({self.servers!r})"

    def tail(self) -> Consumer:
        """Reads control log and leases to the high watermark: nothing there is transactional, and
        a reader of committed records would be held up by what hangs elsewhere."""
        return Consumer(
            {
                **self._reader(),
                "isolation.level": "read_uncommitted",
                "queued.min.messages": 1_000,
                "fetch.wait.max.ms": 500,
                "enable.partition.eof": True,
            }
        )

    def data(self) -> Consumer:
        """Reads messages; prefetches little, for what is prefetched is thrown away often."""
        return Consumer(
            {
                **self._reader(),
                "queued.min.messages": 20_000,
                "queued.max.messages.kbytes": 8_192,
                "enable.partition.eof": True,
            }
        )

    def offsets(self, names: GroupNames) -> Consumer:
        """Never joins and never polls: asks for committed offsets, and lends its name to commit
        them. read_committed: an uncommitted answer was stale in 23 of 100 trials."""
        return Consumer({**self._reader(), "group.id": names.offsets})

    def copy_offsets(self, names: GroupNames) -> Consumer:
        """The same for how far the queue is copied."""
        return Consumer({**self._reader(), "group.id": names.copied})

    def copy_consumer(self, names: GroupNames) -> Consumer:
        return Consumer(config.group_consumer(self.servers, names.copied, self.extra))

    def plain(self) -> Producer:
        """For control and lease records: never in a transaction."""
        settings = config.producer(self.servers, self.extra, 0)
        return warm(Producer({**settings, **_QUICK}))

    def transactional(self, transactional_id: str) -> Producer:
        settings = config.producer(self.servers, self.extra, 0)
        return warm(
            Producer(
                {
                    **settings,
                    **_QUICK,
                    "transactional.id": transactional_id,
                    "transaction.timeout.ms": TRANSACTION_MS,
                    "message.timeout.ms": TRANSACTION_MS,
                    "message.max.bytes": LARGEST,
                }
            )
        )

    def trim(self, topic: str, ends: dict[int, int]) -> None:
        """Delete the records below these offsets."""
        self.admin.trim({(topic, number): end for number, end in ends.items() if end > 0})

    def _reader(self) -> ClientSettings:
        return {**config.reader(self.servers, self.extra), **_QUICK}


def cluster_of(servers: str, extra: ClientSettings, timeout_s: float = 30.0) -> GroupClients:
    """A cluster for one who only copies."""
    return GroupClients(
        servers, extra, Admin(config.common(servers, extra), timeout_s), 1, timeout_s
    )
