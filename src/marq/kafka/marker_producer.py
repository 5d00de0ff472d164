"""Writes records to the markers log and says when the log took them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Producer

from marq.core import names
from marq.kafka.clients import warm_producer
from marq.kafka.clock import BrokerClock

log = logging.getLogger("marq.kafka")

_POLL_S = 0.1

_FINAL = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.INVALID_MSG,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)


class Taken(NamedTuple):
    """When the log took a record: not before the one, not after the other. Mostly they are equal;
    of a record that had to be sent again nobody knows which one was taken first.

    What was taken is in time if the latest is, and a lease counts from the earliest.
    """

    earliest_ms: int
    latest_ms: int

    @classmethod
    def at(cls, ms: int) -> Taken:
        return cls(ms, ms)


Report = Callable[[Taken | None], None]
"""Called once the log took a record; None: it can never be written."""


class MarkerProducer:
    """An idempotent producer; one that has lost its place is replaced, and what it had not written
    is sent again."""

    def __init__(self, settings: dict[str, Any], clock: BrokerClock) -> None:
        self._settings = settings
        self._clock = clock
        self._producer = warm_producer(settings)
        self._replaced: list[Producer] = []
        """Of no more use, but not all of their records are reported."""
        self._replacing = threading.Lock()
        self._numbers = count()
        self._open: set[int] = set()
        """Records whose outcome is not known yet."""
        self._reported = threading.Condition()
        self._closing = False
        self._reporter = threading.Thread(target=self._poll, name="marq-markers", daemon=True)
        self._reporter.start()

    def write(self, partition: int, value: bytes, report: Report, again: bool) -> None:
        """Append a record; `again`: until its outcome is known."""
        with self._reported:
            number = next(self._numbers)
            self._open.add(number)

        def reported(taken: Taken | None) -> None:
            try:
                report(taken)
            finally:
                with self._reported:
                    self._open.discard(number)
                    self._reported.notify_all()

        self._produce(partition, value, reported, again, None)

    def _produce(
        self, partition: int, value: bytes, report: Report, again: bool, first_ms: int | None
    ) -> None:
        tried_ms = first_ms if first_ms is not None else self._clock.known_ms() or 0

        def reported(error: KafkaError | None, message: Any) -> None:
            if error is None:
                report(self._taken(partition, message, tried_ms, first_ms is None))
            elif error.code() in _FINAL or not again or self._closing:
                log.error("marker not written", extra={"error": error.str()})
                report(None)
            else:  # it may be in the log, or not
                self._replace_if_fatal(producer, error)
                self._produce(partition, value, report, again, tried_ms)

        while True:
            producer = self._producer
            try:
                producer.produce(names.MARKERS, value, partition=partition, on_delivery=reported)
                return
            except BufferError:
                time.sleep(0.01)
            except KafkaException as error:
                if error.args[0].code() in _FINAL or self._closing:
                    report(None)
                    return
                self._replace_if_fatal(producer, error.args[0])
                time.sleep(0.05)

    def _taken(self, partition: int, message: Any, tried_ms: int, once: bool) -> Taken:
        kind, at_ms = message.timestamp()
        if kind != TIMESTAMP_LOG_APPEND_TIME:
            return Taken(tried_ms, self._clock.now_ms())  # the broker had it already
        self._clock.sample(partition, at_ms)
        return Taken.at(at_ms) if once else Taken(min(tried_ms, at_ms), at_ms)

    def _replace_if_fatal(self, failed: Producer, error: KafkaError) -> None:
        if not error.fatal():
            return
        with self._replacing:
            if self._producer is not failed:
                return
            self._producer = warm_producer(self._settings)
            self._replaced.append(failed)
        failed.purge()
        log.warning("markers producer replaced", extra={"error": error.str()})

    def _poll(self) -> None:
        while not self._closing:
            self._producer.poll(_POLL_S)
            for old in list(self._replaced):
                old.poll(0)
                if not len(old):
                    self._replaced.remove(old)

    def flush(self, timeout_s: float | None) -> bool:
        """Wait until all that was to be written by now is; False if it did not get so far in time.

        Not by the producer's own flush: that looks every 10 ms, for its reports are heard by
        another thread, and waits for what others write meanwhile, too.
        """
        with self._reported:
            asked = frozenset(self._open)
            return self._reported.wait_for(lambda: asked.isdisjoint(self._open), timeout_s)

    def close(self) -> None:
        self._closing = True
        self._reporter.join()
