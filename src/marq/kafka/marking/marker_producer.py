"""Writes records to the markers log and says when the log took them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException

from marq.errors import QueueError
from marq.kafka.client import codes
from marq.kafka.client.clock import BrokerClock
from marq.kafka.client.lasting import LastingProducer
from marq.kafka.client.refusals import denied
from marq.kafka.leasing.append_time import AppendTime

log = logging.getLogger("marq.kafka")


OutcomeReport = Callable[[AppendTime | None], None]
"""Called once the log took a record; None: it can never be written."""


class MarkerRecord:
    """A record of the markers log, until its outcome is known."""

    __slots__ = (
        "again",
        "first_ms",
        "partition",
        "report",
        "settles",
        "too_large",
        "value",
        "whole",
    )

    def __init__(
        self,
        partition: int,
        value: bytes,
        report: OutcomeReport,
        *,
        again: bool = True,
        part_of: MarkerRecord | None = None,
        too_large: Callable[[], None] | None = None,
    ) -> None:
        self.partition = partition
        self.value = value
        self.report = report
        self.again = again
        """Sent until its outcome is known."""
        self.whole: MarkerRecord = self if part_of is None else part_of.whole
        """The record that was to say all of it, before that was found to be too large."""
        self.too_large = too_large
        """Called in place of the report where the broker refuses it for its size."""
        self.settles: Callable[[], int] = int
        """How many messages it settles; asked only where that is to be told."""
        self.first_ms: int | None = None
        """When it was sent first; None: not yet."""

    def appended(self, appended: AppendTime) -> None:
        """The log has it."""
        self._told(lambda: self.report(appended))

    def refused(self, error: KafkaError) -> None:
        """It can never be written."""
        if codes.is_too_large(error) and self.too_large is not None:
            self._told(self.too_large)
        else:
            self._told(lambda: self.report(None))

    def _told(self, tell: Callable[[], None]) -> None:
        try:
            tell()
        except Exception:  # what comes of one record must not end the thread that hears of all
            log.exception("a marker's report failed")


class MarkerProducer(LastingProducer):
    """An idempotent producer; one that has lost its place is replaced, and what it had not written
    is sent again."""

    def __init__(
        self,
        settings: dict[str, Any],
        topic: str,
        clock: BrokerClock,
        failed: Callable[[QueueError], None] = lambda error: None,
    ) -> None:
        super().__init__(settings, "marq-markers")
        self._topic = topic
        self._clock = clock
        self._failed = failed
        self._open: set[MarkerRecord] = set()
        """Records whose outcome is not known yet."""
        self._reported = threading.Condition()
        self._poller.start()

    def write(self, record: MarkerRecord) -> None:
        """Append a record."""
        with self._reported:
            self._open.add(record)
        self._produce(record)

    def _produce(self, record: MarkerRecord) -> None:
        first_ms, is_first = record.first_ms, record.first_ms is None
        tried_ms = (self._clock.known_ms() or 0) if first_ms is None else first_ms
        record.first_ms = tried_ms

        def reported(error: KafkaError | None, message: Any) -> None:
            if error is None:
                record.appended(self._taken(record.partition, message, tried_ms, is_first))
            elif codes.is_never_written(error) or not record.again or self._closing:
                log.error("marker not written", extra={"error": error.str()})
                self._refused(error)
                record.refused(error)
            else:  # it may be in the log, or not
                self._replace_if_fatal(producer, error)
                self._produce(record)
                return
            self._over(record)

        while True:
            producer = self._producer
            try:
                producer.produce(
                    self._topic, record.value, partition=record.partition, on_delivery=reported
                )
                return
            except BufferError:
                time.sleep(0.01)
            except KafkaException as error:
                if codes.is_never_written(error.args[0]) or self._closing:
                    self._refused(error.args[0])
                    record.refused(error.args[0])
                    self._over(record)
                    return
                self._replace_if_fatal(producer, error.args[0])
                time.sleep(0.05)

    def _refused(self, error: KafkaError) -> None:
        """Without the right to write here nothing can be received or settled: whoever takes
        messages is told, or would wait for ever."""
        if codes.is_denied(error):
            self._clock.refused()
            self._failed(denied(f"WRITE on topic {self._topic!r}", error.str()))

    def _over(self, record: MarkerRecord) -> None:
        with self._reported:
            self._open.discard(record)
            self._reported.notify_all()

    def _taken(self, partition: int, message: Any, tried_ms: int, once: bool) -> AppendTime:
        kind, at_ms = message.timestamp()
        if kind != TIMESTAMP_LOG_APPEND_TIME:
            return AppendTime(tried_ms, self._clock.now_ms())  # the broker had it already
        self._clock.sample(partition, at_ms)
        return AppendTime.at(at_ms) if once else AppendTime(min(tried_ms, at_ms), at_ms)

    def _died(self, error: BaseException) -> None:
        super()._died(error)
        with self._reported:
            self._reported.notify_all()
        assert self.failure is not None
        self._failed(self.failure)

    def flush(self, timeout_s: float | None) -> bool:
        """Wait until all that was to be written by now is; False if it did not get so far in time.

        Not by the producer's own flush: that looks every 10 ms, for its reports are heard by
        another thread, and waits for what others write meanwhile, too.
        """
        with self._reported:
            asked = frozenset(each.whole for each in self._open)
            done = self._reported.wait_for(
                lambda: (
                    self.failure is not None or asked.isdisjoint(each.whole for each in self._open)
                ),
                timeout_s,
            )
            if self.failure is not None:
                raise self.failure
            return done

    def unwritten(self) -> int:
        """Messages that are settled by records whose outcome is not known."""
        with self._reported:
            return sum(record.settles() for record in self._open)

    def close(self) -> None:
        self._stop()
