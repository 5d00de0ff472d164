"""A producer that lasts: polled by a thread of its own, replaced when it can write no more."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from typing import Any, NoReturn, cast

from confluent_kafka import KafkaError, KafkaException

from marq import threads
from marq.errors import QueueError
from marq.kafka.client.making import Producer, warm_producer

log = logging.getLogger("marq.kafka")

_POLL_S = 0.1


class LastingProducer:
    """Of a fatal error librdkafka's producer never recovers: another one takes its place."""

    def __init__(self, settings: dict[str, Any], name: str) -> None:
        self._settings = settings
        self._number = 0
        """Which of its producers is at work."""
        self._producer = self._make()
        self._replaced: list[Producer] = []
        """Of no more use, but not all of their records are reported."""
        self._replacing = threading.Lock()
        self._closing = False
        self.failure: QueueError | None = None
        """Why nothing is reported any more."""
        self._poller = threads.make(self._poll, name, self._died)

    def _poll(self) -> None:
        while not self._closing:
            self._hear(self._producer, _POLL_S)
            for old in list(self._replaced):
                self._hear(old, 0)
                if not len(old):
                    self._replaced.remove(old)

    def _hear(self, producer: Producer, wait_s: float) -> None:
        try:
            producer.poll(wait_s)
        except KafkaException as error:
            if not error.args[0].fatal():
                raise
            self._replace_if_fatal(producer, error.args[0])

    def _make(self) -> Producer:
        """The next producer; it refers to its owner weakly, so that both go when they are done."""
        self._number += 1
        heard = _listener(weakref.ref(self), self._number, self._settings.get("error_cb"))
        return warm_producer({**self._settings, "error_cb": heard})

    def _replace_if_fatal(self, failed: Producer, error: KafkaError) -> None:
        if not error.fatal():
            return
        with self._replacing:
            if self._producer is not failed:
                return
            self._producer = self._make()
            self._replaced.append(failed)
        failed.purge()
        log.warning("producer replaced", extra={"error": error.str()})

    def _died(self, error: BaseException) -> None:
        self.failure = QueueError(
            f"what was written is no longer reported, for a thread died of {error!r}: connect again"
        )

    def _stop(self) -> None:
        self._closing = True
        self._poller.join()
        # Its threads and connections go now, not when cycles of references are collected.
        self._producer = cast(Producer, _Closed())
        self._replaced.clear()


class _Closed:
    """In the place of a producer that was closed."""

    def produce(self, *_: object, **__: object) -> NoReturn:
        raise QueueError("the broker is closed: connect again")

    def poll(self, timeout_s: float) -> int:
        return 0

    def flush(self, timeout_s: float) -> int:
        return 0

    def purge(self) -> None: ...

    def __len__(self) -> int:
        return 0


def _listener(
    owner: weakref.ref[LastingProducer], number: int, also: Callable[[KafkaError], Any] | None
) -> Callable[[KafkaError], None]:
    """What librdkafka tells of the client itself; without one, `poll` would raise what is fatal."""

    def heard(error: KafkaError) -> None:
        if also is not None:
            also(error)
        found = owner()
        if found is not None and found._number == number:
            found._replace_if_fatal(found._producer, error)

    return heard
