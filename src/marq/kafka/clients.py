"""Makes librdkafka's clients ready to use."""

from __future__ import annotations

import contextlib
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer

from marq.core import names
from marq.kafka.config import Config

_WARM_S = 5.0


def warm_producer(settings: Config) -> Producer:
    """A producer that knows its broker: one that does not waits half a second for its id."""
    producer = Producer(settings)
    with contextlib.suppress(KafkaException):  # away: the first send will tell, or wait
        producer.list_topics(names.CATALOG, timeout=_WARM_S)
    return producer


def take(consumer: Consumer, limit: int, wait_s: float) -> list[Any]:
    """What is there, waiting only for the first: `consume` waits until it has as many as asked."""
    batch: list[Any] = consumer.consume(limit, 0)  # mostly enough where much comes in
    if batch:
        return batch
    batch = consumer.consume(1, wait_s)
    if batch and limit > 1:
        batch += consumer.consume(limit - 1, 0)
    return batch
