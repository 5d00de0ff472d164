"""Ticks: the tracker's way to let time go by in every hold-log partition."""

from __future__ import annotations

import threading
import time
from typing import Any

from confluent_kafka import KafkaError

from marq import threads
from marq.core.markers import codec
from marq.core.markers.marker import Tick
from marq.kafka.client.clock import BrokerClock
from marq.kafka.client.config import Config
from marq.kafka.client.renewed import RenewedProducer

_TICK = codec.encode(Tick())
_TELL_S = 0.5


class Ticks:
    """A thread that appends a tick to each partition every so often."""

    def __init__(self, settings: Config, places: list[tuple[str, int]], every_s: float) -> None:
        # Ticks that wait for a broker that is away say nothing: the next ones do as well.
        own = {"linger.ms": 0, "message.timeout.ms": 5_000}
        self._producer = RenewedProducer({**settings, **own})
        self.clock = BrokerClock()
        """What time it is by the log: ticks are told when they were appended."""
        self._told_ms = dict.fromkeys(places, 0)
        """When each partition took its last tick."""
        self._every_s = every_s
        self._ticking = threading.Lock()
        self._stopping = threading.Event()
        self.failure: BaseException | None = None
        """What its thread ended by; time stands still."""
        self._thread = threads.make(self._run, "marq-ticks", self._failed)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident:
            self._thread.join()

    def _failed(self, error: BaseException) -> None:
        self.failure = error

    def _run(self) -> None:
        while not self._stopping.wait(self._every_s):
            self.tick()

    def tick(self) -> None:
        """One tick to each partition."""
        with self._ticking:
            self._tick()
            self._producer.poll(0)

    def tell(self, at_ms: int) -> None:
        """Let every partition know at once that this time is over, and wait until it does; if a
        broker is away, not for long."""
        with self._ticking:
            self._tick()
            late = time.monotonic() + _TELL_S
            while min(self._told_ms.values()) < at_ms and time.monotonic() < late:
                self._producer.poll(0.01)

    def _tick(self) -> None:
        for topic, partition in self._told_ms:
            if not self._producer.produce(topic, _TICK, partition=partition, told=self._told):
                break  # the broker is away: time goes by without us

    def _told(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            place, at_ms = (message.topic(), message.partition()), message.timestamp()[1]
            self._told_ms[place] = at_ms
            self.clock.sample(place, at_ms)
