"""The settings of every librdkafka client marq makes, and why they are what they are."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError

from marq.core.fate.settling import PUMP_LEASE_MS
from marq.kafka.client import doors, telling

Config = dict[str, Any]

SESSION_TIMEOUT_MS = PUMP_LEASE_MS - 5_000

_COMMON: Config = {
    "client.id": "marq",
    # Warnings and worse: `telling` has them logged.
    "log_level": 4,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1_000,
    "socket.keepalive.enable": True,
    "topic.metadata.refresh.interval.ms": 30_000,
}
# A cluster makes topics of itself unless it is told otherwise, and a producer asks it to. What is
# sent to a queue that was deleted would go to one that nobody reads, and be lost.
_MAKES_NO_TOPICS: Config = {"allow.auto.create.topics": False}


def common(servers: str, extra: Config) -> Config:
    """What all clients share; the user's own settings win."""
    door, connections = doors.of(servers), telling.Connections(servers)

    def heard(error: KafkaError) -> None:
        if not door.heard(error):
            connections.heard(error)

    return {**_COMMON, "bootstrap.servers": servers, "error_cb": heard, **extra, **_MAKES_NO_TOPICS}


def producer(servers: str, extra: Config, linger_ms: float) -> Config:
    """An idempotent producer that does not give up: what was sent arrives once, in order."""
    return {
        **common(servers, {}),
        "linger.ms": linger_ms,
        "compression.type": "none",
        "batch.size": 1_000_000,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 256 * 1_024,
        # A broker that is away for minutes is waited for, not an error.
        "message.timeout.ms": 600_000,
        "retry.backoff.ms": 20,
        "retry.backoff.max.ms": 500,
        # A queue that was deleted is an error soon, not after the default of 30 s.
        "topic.metadata.propagation.max.ms": 3_000,
        "partitioner": "consistent_random",
        "sticky.partitioning.linger.ms": 10,
        **extra,
        **_MAKES_NO_TOPICS,
        "enable.idempotence": True,
        "acks": "all",
    }


def group_consumer(servers: str, group: str, extra: Config) -> Config:
    """The pump's consumer: classic protocol, for the new one's session floor is 45 s."""
    return {
        **reader(servers, extra),
        "group.id": group,
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": SESSION_TIMEOUT_MS,
        "heartbeat.interval.ms": 1_000,
        "max.poll.interval.ms": 300_000,
        "auto.offset.reset": "error",
    }


def glancing(servers: str, extra: Config) -> Config:
    """A consumer that looks at a few records here and there, and fetches no megabytes for them."""
    few = {"max.partition.fetch.bytes": 65_536, "queued.min.messages": 1}
    return {**reader(servers, extra), **few}


def reader(servers: str, extra: Config) -> Config:
    """A consumer that reads what it is told to, as far as transactions are decided."""
    return {
        # The default of 1000 caps a fast consumer at a fifth of its speed.
        "fetch.queue.backoff.ms": 5,
        "fetch.wait.max.ms": 100,
        "fetch.min.bytes": 1,
        "max.partition.fetch.bytes": 4 * 1_048_576,
        "queued.max.messages.kbytes": 32 * 1_024,
        "queued.min.messages": 100_000,
        **common(servers, extra),
        # What must be so for nothing to be lost is nobody's to change.
        "group.id": "marq.reader",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": False,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
    }
