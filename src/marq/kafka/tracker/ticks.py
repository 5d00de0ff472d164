"""Ticks: the tracker's way to let time go by in every hold-log partition."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError

from marq import threads
from marq.core.markers import codec
from marq.core.markers.marker import Tick
from marq.kafka.client.clock import BrokerClock
from marq.kafka.client.config import Config
from marq.kafka.client.renewed import RenewedProducer
from marq.kafka.client.seeker import Place

_TICK = codec.encode(Tick())
_TELL_S = 0.5
_HEAR_S = 0.05
"""How long a tick's reports are waited for: the clock is as exact as they are heard early."""
SILENT_S = 0.5
"""With the last tick of a partition so long ago nobody knows what was appended to it since."""
_UNKNOWN = 1 << 62


@dataclass(slots=True)
class LastTick:
    """What is known of a partition by the latest tick it took."""

    at_ms: int = 0
    offset: int = -2
    """Before the first: none that the first could follow."""
    only_from: int = _UNKNOWN
    """From this offset on it has ticks of ours and nothing else, as far as the latest one."""
    heard_at: float = float("-inf")

    def took(self, offset: int, at_ms: int) -> None:
        """The partition has appended another one."""
        if offset < self.offset:
            self.only_from = _UNKNOWN  # it lost its end, or was made again
        elif offset != self.offset + 1:
            self.only_from = offset
        self.offset, self.at_ms, self.heard_at = offset, at_ms, time.monotonic()

    def is_alone(self, since: int) -> bool:
        """Whether nothing but ticks lies there from this offset on."""
        return self.only_from <= since and self.heard_at > time.monotonic() - SILENT_S


class Ticks:
    """A thread that appends a tick to each partition every so often."""

    def __init__(self, settings: Config, places: list[Place], every_s: float) -> None:
        # Ticks that wait for a broker that is away say nothing: the next ones do as well.
        own = {"linger.ms": 0, "message.timeout.ms": 5_000}
        self._producer = RenewedProducer({**settings, **own})
        self.clock = BrokerClock()
        """What time it is by the log: ticks are told when they were appended."""
        self._last = {place: LastTick() for place in places}
        self._every_s = every_s
        self._ticking = threading.Lock()
        self._heard = threading.Condition()
        """Told after each round of ticks."""
        self._stopping = threading.Event()
        self.failure: BaseException | None = None
        """What its thread ended by, or the right it lacks; time stands still."""
        self._thread = threads.make(self._run, "marq-ticks", self._failed)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self.wake()
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
            began = time.monotonic()
            self._tick()
            self._hear(lambda: all(last.heard_at >= began for last in self._last.values()), _HEAR_S)
            self._refuse_if_denied()
        self.wake()

    def _refuse_if_denied(self) -> None:
        """Without the right to tell the time there is nothing to be done."""
        if (refused := self._producer.refused()) is not None:
            raise refused

    def tell(self, at_ms: int) -> None:
        """Let every partition know at once that this time is over, and wait until it does; if a
        broker is away, not for long."""
        with self._ticking:
            self._tick()
            self._hear(lambda: self.told_ms >= at_ms, _TELL_S)

    @property
    def told_ms(self) -> int:
        """The time that every partition was told."""
        return min(last.at_ms for last in self._last.values())

    def nothing_new(
        self, ends: Mapping[Place, int], for_s: float, given_up: Callable[[], bool]
    ) -> bool:
        """Whether for so long the log has nothing but ticks behind these offsets. False as soon as
        it has, or nobody knows: what lies between two ticks is seen by their offsets."""

        def is_over() -> bool:
            return self._stopping.is_set() or given_up() or not self._are_alone(ends)

        with self._heard:
            return not self._heard.wait_for(is_over, for_s)

    def wake(self) -> None:
        """Have whoever waits look again."""
        with self._heard:
            self._heard.notify_all()

    def _are_alone(self, ends: Mapping[Place, int]) -> bool:
        return all(last.is_alone(ends.get(place, -1)) for place, last in self._last.items())

    def _tick(self) -> None:
        for topic, partition in self._last:
            if not self._producer.produce(topic, _TICK, partition=partition, told=self._told):
                break  # the broker is away: time goes by without us

    def _hear(self, enough: Callable[[], bool], within_s: float) -> None:
        late = time.monotonic() + within_s
        while not enough() and time.monotonic() < late:
            self._producer.poll(0.01)

    def _told(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            place, at_ms = (message.topic(), message.partition()), message.timestamp()[1]
            self._last[place].took(message.offset(), at_ms)
            self.clock.sample(place, at_ms)
