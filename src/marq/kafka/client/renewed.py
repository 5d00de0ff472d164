"""A producer that is renewed by who uses it, for records of which the next one says as much."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from marq.kafka.client import codes
from marq.kafka.client.config import Config
from marq.kafka.client.making import Producer, warm_producer
from marq.kafka.client.refusals import Denied, denied

log = logging.getLogger("marq.kafka")

Told = Callable[[KafkaError | None, Any], None]


class RenewedProducer:
    """Librdkafka's producer, made anew after an error that it says it cannot get over: with the old
    one nothing would ever be written again. What it had not written is given up."""

    def __init__(self, settings: Config) -> None:
        self._settings = settings
        self._producer = warm_producer(settings)
        self._refused: Denied | None = None

    def refused(self) -> Denied | None:
        """The right that was found to be missing since this was asked last."""
        found, self._refused = self._refused, None
        return found

    def _hear(self, topic: str, error: KafkaError) -> None:
        if codes.is_denied(error):
            self._refused = denied(f"WRITE on topic {topic!r}", error.str())

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int,
        told: Told | None = None,
    ) -> bool:
        """Append a record; False if that cannot be now. `told` hears what became of it, unless the
        producer is renewed meanwhile."""

        def heard(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                self._hear(topic, error)
            if told is not None:
                told(error, message)

        try:
            self._producer.produce(topic, value, key, partition=partition, on_delivery=heard)
        except BufferError:
            return False
        except KafkaException as error:
            self._hear(topic, error.args[0])
            self._renew_if_fatal(error.args[0])
            return False
        return True

    def poll(self, wait_s: float) -> None:
        """Hear what became of records."""
        try:
            self._producer.poll(wait_s)
        except KafkaException as error:  # a producer that has failed for good says so here, too
            if not self._renew_if_fatal(error.args[0]):
                raise

    def flush(self, timeout_s: float) -> bool:
        """Wait until all is written; whether it is."""
        return self._producer.flush(timeout_s) == 0

    def _renew_if_fatal(self, error: KafkaError) -> bool:
        is_fatal = codes.is_fatal(error)
        if is_fatal:
            log.error("producer renewed", extra={"error": error.str()})
            self._producer.purge()
            self._producer = Producer(self._settings)
        return is_fatal
