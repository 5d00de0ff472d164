"""Ticks: the tracker's way to let time go by in every hold-log partition."""

from __future__ import annotations

import threading
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from marq.core import codec
from marq.core.marker import Tick
from marq.kafka.clients import warm_producer
from marq.kafka.clock import BrokerClock
from marq.kafka.config import Config

_TICK = codec.encode(Tick())


class Ticks:
    """A thread that appends a tick to each partition every so often."""

    def __init__(self, settings: Config, places: list[tuple[str, int]], every_s: float) -> None:
        # Ticks that wait for a broker that is away say nothing: the next ones do as well.
        self._producer = warm_producer({**settings, "linger.ms": 0, "message.timeout.ms": 5_000})
        self._places = places
        self.clock = BrokerClock()
        """What time it is by the log: ticks are told when they were appended."""
        self._every_s = every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="marq-ticks", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._every_s):
            self.tick()

    def tick(self) -> None:
        """One tick to each partition."""
        for topic, partition in self._places:
            try:
                self._producer.produce(topic, _TICK, partition=partition, on_delivery=self._told)
            except (BufferError, KafkaException):
                break  # the broker is away: time goes by without us
        self._producer.poll(0)

    def _told(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            self.clock.sample(message.partition(), message.timestamp()[1])
