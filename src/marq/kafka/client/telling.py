"""What librdkafka says of brokers and connections, told through logging: what happened, why, and
what to do. One line a minute for each event: librdkafka tries ten times a second."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka import KafkaError

log = logging.getLogger("marq.kafka.client")

EVERY_S = 60.0


class WhatHappened(NamedTuple):
    """Something that happened, by its name in the log, and what to do about it."""

    name: str
    to_do: str


_ERRORS = {
    KafkaError._ALL_BROKERS_DOWN: WhatHappened(
        "no broker reachable",
        "check that the cluster runs, and that its address can be reached from here; "
        "what was sent and acked waits, and is written as soon as a broker answers",
    ),
    KafkaError._TRANSPORT: WhatHappened(
        "broker connection failed",
        "nothing if a broker restarts; else check that this machine reaches the addresses the "
        "brokers give (advertised.listeners), and that the protocol is theirs (security.protocol)",
    ),
    KafkaError._RESOLVE: WhatHappened(
        "broker name not resolved",
        "check the host names in the URL, and those the brokers give (advertised.listeners)",
    ),
    KafkaError._MAX_POLL_EXCEEDED: WhatHappened(
        "group left for want of polls",
        "this process stood still for minutes; what it had fetched comes back by itself",
    ),
}
_OTHER_ERROR = WhatHappened(
    "Kafka client error", "if it goes on, look at the brokers' logs for its cause"
)

_LINES = {
    "REQTMOUT": WhatHappened(
        "broker requests timed out",
        "look whether the broker is overloaded or the network loses packets; they are sent again",
    ),
    "SESSTMOUT": WhatHappened(
        "group session timed out",
        "this process was paused, or the broker that keeps its group away; what it had fetched "
        "comes back by itself",
    ),
    "MAXPOLL": _ERRORS[KafkaError._MAX_POLL_EXCEEDED],
}
_OTHER_LINE = WhatHappened(
    "librdkafka warning", "if it goes on, look at the brokers' logs for its cause"
)
_TOLD_ELSEWHERE = frozenset({"FAIL", "ERROR", "FATAL"})
"""To the error callback, or by calls that fail."""
_OWN_SETTINGS = "CONFWARN"
"""A producer was given a setting of consumers: all clients get all of the user's settings."""


class Teller:
    """Logs an event once a minute, with how often it was kept quiet about in between."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._quiet: dict[str, tuple[float, int]] = {}

    def tell(self, event: WhatHappened, error: str, key: str | None = None, **more: str) -> None:
        """Log it, unless it was within the last minute; `key`: what counts as the same."""
        key = key or event.name
        # Without a lock, which a fork could leave taken: at worst a line is written twice.
        until, silent = self._quiet.get(key, (-math.inf, 0))
        now = self._clock()
        if now < until:
            self._quiet[key] = until, silent + 1
            return
        self._quiet[key] = now + EVERY_S, 0
        extra = {**more, "error": error, "to_do": event.to_do}
        if silent:
            extra["not_told"] = str(silent)
        log.warning(event.name, extra=extra)


_teller = Teller()


def error(found: KafkaError, servers: str, teller: Teller = _teller) -> None:
    """An error of a client itself; one that is fatal reaches its next call."""
    if found.fatal():
        return
    event = _ERRORS.get(found.code(), _OTHER_ERROR)
    other = f"{event.name} {found.code()}" if event is _OTHER_ERROR else event.name
    teller.tell(event, found.str(), key=f"{servers} {other}", servers=servers)


class Lines:
    """What librdkafka takes for a logger."""

    def __init__(self, teller: Teller = _teller) -> None:
        self._teller = teller

    def log(self, level: int, form: str, facility: str, client: str, text: str) -> None:
        """A line of librdkafka's log."""
        if facility in _TOLD_ELSEWHERE:
            return
        if level < logging.WARNING or facility == _OWN_SETTINGS:
            log.debug("librdkafka", extra={"facility": facility, "client": client, "said": text})
            return
        event = _LINES.get(facility, _OTHER_LINE)
        self._teller.tell(event, text, key=facility, facility=facility, client=client)


LINES = Lines()
