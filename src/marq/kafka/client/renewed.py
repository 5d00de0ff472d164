"""A producer that is renewed by who uses it, for records of which the next one says as much."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from marq.kafka.client.config import Config
from marq.kafka.client.making import Producer, warm_producer

log = logging.getLogger("marq.kafka")

Told = Callable[[KafkaError | None, Any], None]


class RenewedProducer:
    """Librdkafka's producer, made anew after an error that it says it cannot get over: with the old
    one nothing would ever be written again. What it had not written is given up."""

    def __init__(self, settings: Config) -> None:
        self._settings = settings
        self._producer = warm_producer(settings)

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
        more: dict[str, Any] = {"on_delivery": told} if told else {}
        try:
            self._producer.produce(topic, value, key, partition=partition, **more)
        except BufferError:
            return False
        except KafkaException as error:
            self._renew_if_fatal(error.args[0])
            return False
        return True

    def poll(self, wait_s: float) -> None:
        """Hear what became of records."""
        try:
            self._producer.poll(wait_s)
        except KafkaException as error:  # of a producer at its end it is told here, too
            if not self._renew_if_fatal(error.args[0]):
                raise

    def flush(self, timeout_s: float) -> bool:
        """Wait until all is written; whether it is."""
        return self._producer.flush(timeout_s) == 0

    def _renew_if_fatal(self, error: KafkaError) -> bool:
        is_fatal = bool(error.fatal() or error.code() == KafkaError._FATAL)
        if is_fatal:
            log.error("producer renewed", extra={"error": error.str()})
            self._producer.purge()
            self._producer = Producer(self._settings)
        return is_fatal
