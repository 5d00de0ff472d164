"""A member's end of a producer group: what it is asked, one consumer in each process."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from marq.backend import Asked
from marq.core.messages.request import requested
from marq.errors import MalformedMarker
from marq.kafka.access import Access
from marq.kafka.client import config
from marq.kafka.client.making import Consumer, take
from marq.kafka.client.record import headers

log = logging.getLogger("marq.kafka")

_MOST = 200
_PAUSE_S = 0.2


class KafkaRequests:
    """Reads requests; one that is lost with a member comes again."""

    def __init__(self, access: Access, group: str) -> None:
        name = access.space.checks_group(group)
        settings = config.group_consumer(access.servers, name, access.extra)
        own = {
            "enable.auto.commit": True,
            "enable.auto.offset.store": True,
            "auto.offset.reset": "earliest",
            "queued.min.messages": _MOST,
        }
        self._consumer: Consumer | None = Consumer({**settings, **own})
        self._consumer.subscribe([access.space.checks(group)])
        self._lock = threading.Lock()

    def take(self, wait_s: float) -> list[Asked]:
        with self._lock:
            if self._consumer is None:
                time.sleep(wait_s)
                return []
            found = take(self._consumer, _MOST, wait_s)
        asked = [_asked(message) for message in found if message.error() is None]
        if found and not asked:
            time.sleep(_PAUSE_S)  # the topic is gone, or nobody leads it now
        return [each for each in asked if each is not None]

    def close(self) -> None:
        with self._lock:
            if self._consumer is not None:
                self._consumer.close()
                self._consumer = None


def _asked(message: Any) -> Asked | None:
    try:
        request, said = requested(message.key(), headers(message))
    except MalformedMarker as error:
        log.info("no request", extra={"offset": message.offset(), "error": str(error)})
        return None
    return Asked(request, said, message.value() or b"")
