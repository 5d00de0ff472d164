"""Makes librdkafka's clients, and makes them ready to use. All of them are made here: in a child of
the process they must neither be used nor destroyed, for the threads they wait for are not there."""

from __future__ import annotations

import contextlib
import gc
from typing import Any, TypeVar

import confluent_kafka
from confluent_kafka import KafkaException, admin

from marq import forks
from marq.core import names
from marq.kafka.client.config import Config
from marq.kafka.client.telling import LINES


class Consumer(confluent_kafka.Consumer):
    """librdkafka's consumer."""

    __slots__ = ("__weakref__",)

    def __init__(self, settings: Config) -> None:
        super().__init__(settings, logger=LINES)
        forks.keep(self)


class Producer(confluent_kafka.Producer):
    """librdkafka's producer."""

    __slots__ = ("__weakref__",)

    def __init__(self, settings: Config) -> None:
        super().__init__(settings, logger=LINES)
        forks.keep(self)


class AdminClient(admin.AdminClient):
    """librdkafka's admin client. Nobody polls it for what it has to say: its calls fail."""

    def __init__(self, settings: Config) -> None:
        super().__init__({**settings, "log_level": 0})
        forks.keep(self)


T = TypeVar("T", Consumer, Producer)
_WARM_S = 5.0


def warm(client: T) -> T:
    """The client, connected to its broker: one that is not waits half a second when it counts.

    It asks twice: the first answer may come over the connection that was made to find the cluster.
    Of 30 transactional producers opened on a busy machine 17 waited, of those that asked twice
    none.
    """
    with contextlib.suppress(KafkaException):  # away: the first use will tell, or wait
        for _ in range(2):
            client.list_topics(names.CATALOG, timeout=_WARM_S)
    return client


def warm_producer(settings: Config) -> Producer:
    """A producer that knows its broker."""
    return warm(Producer(settings))


def take(consumer: Consumer, limit: int, wait_s: float) -> list[Any]:
    """What is there, waiting only for the first: `consume` waits until it has as many as asked."""
    batch = _uncollected(consumer, limit)  # mostly enough where much comes in
    if batch:
        return batch
    batch = consumer.consume(1, wait_s)
    if batch and limit > 1:
        batch += consumer.consume(limit - 1, 0)
    return batch


def _uncollected(consumer: Consumer, limit: int) -> list[Any]:
    """What is there, without the garbage collector: it looked at the messages again and again while
    they were made, and that was half of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        batch: list[Any] = consumer.consume(limit, 0)
        return batch
    finally:
        if was_on:
            gc.enable()
