"""Reads the partitions that are held, each into its tenure's inbox."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException, TopicPartition

from marq import threads
from marq.errors import QueueError
from marq.kafka.client import codes
from marq.kafka.client.making import Consumer, take
from marq.kafka.client.refusals import denied
from marq.kafka.groups.tenure import Tenure

_BATCH = 2_000
_WAIT_S = 0.02
_FULL, _LOW = 4_000, 1_000


class Fetcher:
    """One consumer that only its own thread touches: it is locked while it polls."""

    def __init__(
        self, make: Callable[[], Consumer], topic: str, failed: Callable[[BaseException], None]
    ) -> None:
        self._make = make
        self._topic = topic
        self._commands: queue.SimpleQueue[Callable[[Consumer], None] | None] = queue.SimpleQueue()
        self._tenures: dict[int, Tenure] = {}
        self._paused = set[int]()
        self.arrived: Callable[[int], None] = lambda partition: None
        self._failed = failed
        self._thread = threads.start(self._run, "marq-group-fetch", failed)

    def start(self, tenures: list[Tenure]) -> None:
        """Read these from their watermark on."""

        def begin(consumer: Consumer) -> None:
            self._tenures |= {each.partition: each for each in tenures}
            consumer.incremental_assign(
                [TopicPartition(self._topic, each.partition, each.watermark) for each in tenures]
            )

        self._commands.put(begin)

    def stop(self, partitions: frozenset[int]) -> None:
        """Read these no more; what was fetched of them is thrown away."""

        def end(consumer: Consumer) -> None:
            gone = partitions & self._tenures.keys()
            for number in gone:
                del self._tenures[number]
            self._paused -= gone
            if gone:
                consumer.incremental_unassign([TopicPartition(self._topic, p) for p in gone])

        self._commands.put(end)

    def close(self) -> None:
        self._commands.put(None)
        self._thread.join()

    def _run(self) -> None:
        consumer = self._make()
        try:
            while self._obey(consumer):
                if self._tenures:
                    self._fetch(consumer)
        except KafkaException as error:
            self._failed(QueueError(f"{self._topic} cannot be read: {error}"))
        finally:
            consumer.close()

    def _obey(self, consumer: Consumer) -> bool:
        """Carry out what was asked; with nothing to read, wait for it."""
        while True:
            try:
                command = self._commands.get(not self._tenures)
            except queue.Empty:
                return True
            if command is None:
                return False
            command(consumer)

    def _fetch(self, consumer: Consumer) -> None:
        got = set[int]()
        for message in take(consumer, _BATCH, _WAIT_S):
            error = message.error()
            if error is not None and not codes.is_end(error):
                self._trouble(error)
            elif tenure := self._tenures.get(message.partition()):
                tenure.inbox.append(message)
                got.add(message.partition())
        for number in got:
            self.arrived(number)
        self._pace(consumer)

    def _trouble(self, error: Any) -> None:
        if codes.is_unreadable(error):
            self._failed(denied(f"READ on topic {self._topic!r}", error.str()))
        if codes.is_off_the_log(error):
            self._failed(
                QueueError(
                    f"{self._topic} does not have the offset that was acked last: {error.str()}. "
                    f"Offsets expire after 7 days without members: set them by hand"
                )
            )

    def _pace(self, consumer: Consumer) -> None:
        """A partition that is blocked must not fill the memory, nor stop the others."""
        full = {n for n, each in self._tenures.items() if len(each.inbox) > _FULL} - self._paused
        low = {n for n in self._paused if len(self._tenures[n].inbox) < _LOW}
        if full:
            consumer.pause([TopicPartition(self._topic, number) for number in full])
        if low:
            consumer.resume([TopicPartition(self._topic, number) for number in low])
        self._paused = (self._paused | full) - low
