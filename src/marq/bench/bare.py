"""What marq is compared with: the clients of confluent_kafka, used as their documentation says."""

from __future__ import annotations

import secrets
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, ShareConsumer, TopicPartition

from marq.bench.altering import alter_group
from marq.bench.meter import Meter
from marq.bench.plan import PARTITIONS, Measurement
from marq.errors import RuntimeFailed
from marq.kafka.client import config

PATIENCE_S = 30.0
CONSUME = 1_000
"""Messages of a call, as many as marq's `receive` is asked for; with 10,000 it is slower."""
BATCH = 10_000
"""Messages of a poll of a tuned ShareConsumer."""
LINGER_MS = 5
"""As marq's sender."""
_POLL_EVERY = 1_000


def consume(job: Measurement, meter: Meter) -> None:
    """Count messages with marq's consumer settings: no commit, no look at any of them."""
    consumer = Consumer(config.reader(job.servers, {}))
    consumer.assign([TopicPartition(job.queue, number, 0) for number in range(PARTITIONS)])
    refuse_none(consumer.consume(1, PATIENCE_S))
    meter.first(1)
    left = job.messages - 1
    while left > 0:
        batch = consumer.consume(min(left, CONSUME), PATIENCE_S)
        refuse_none(batch)
        if batch[-1].error() is not None:
            raise RuntimeFailed(f"the bare consumer failed: {batch[-1].error()}")
        left -= len(batch)
    meter.last()
    consumer.close()


def share(job: Measurement, meter: Meter) -> None:
    """Acknowledge every message, in polls as large as marq's."""
    _share(job, meter, {"max.poll.records": BATCH})


def share_stock(job: Measurement, meter: Meter) -> None:
    """Acknowledge every message, with the settings a ShareConsumer comes with."""
    _share(job, meter, {})


def _share(job: Measurement, meter: Meter, tuning: dict[str, Any]) -> None:
    group = f"bench.{secrets.token_hex(8)}"
    # A new share group begins at the log's end unless it is told otherwise.
    alter_group(job.servers, group, "share.auto.offset.reset", "earliest")
    explicit = {"group.id": group, "share.acknowledgement.mode": "explicit"}
    settings = {**config.common(job.servers, {}), **explicit, **tuning}
    del settings["allow.auto.create.topics"]  # share consumers do not know it yet
    consumer = ShareConsumer(settings)
    consumer.subscribe([job.queue])
    left = job.messages
    while left > 0:
        batch = consumer.poll(PATIENCE_S)
        refuse_none(batch)
        meter.first(len(batch))
        for message in batch:
            consumer.acknowledge(message)
        left -= len(batch)
    _refuse_errors([error for error in consumer.commit_sync().values() if error is not None])
    meter.last()
    consumer.close()


def produce(job: Measurement, meter: Meter) -> None:
    """Send with marq's producer settings and a delivery callback for each message."""
    producer = Producer(config.producer(job.servers, {}, LINGER_MS))
    producer.produce(job.queue, b"")  # connects and gets its id, as marq's has by then
    producer.flush(PATIENCE_S)
    payload, failed = bytes(job.size), list[KafkaError]()

    def reported(error: KafkaError | None, message: object) -> None:
        if error is not None:
            failed.append(error)

    meter.first(0)
    for number in range(job.messages):
        try:
            producer.produce(job.queue, payload, on_delivery=reported)
        except BufferError:
            _produce_when_there_is_room(producer, job.queue, payload, reported)
        if number % _POLL_EVERY == 0:
            producer.poll(0)
    producer.flush()
    meter.last()
    _refuse_errors(failed)


def _produce_when_there_is_room(
    producer: Producer, topic: str, payload: bytes, reported: Any
) -> None:
    while True:
        producer.poll(0.1)
        try:
            return producer.produce(topic, payload, on_delivery=reported)
        except BufferError:
            continue


def refuse_none(batch: Any) -> None:
    """Nobody brings the messages that are missing."""
    if not len(batch):
        raise RuntimeFailed(f"no message came for {PATIENCE_S:.0f} s")


def _refuse_errors(errors: list[Any]) -> None:
    if errors:
        raise RuntimeFailed(f"{len(errors)} calls failed, the first: {errors[0]}")
