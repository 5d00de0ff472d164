"""What librdkafka says of brokers and connections, logged: what happened, why, and
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
_PATIENCE_S = 2.0
"""How long connections fail before it is told: localhost is often two addresses of which one
answers, and brokers restart."""
_GAP_S = 5.0
"""What fails again after longer than that fails anew."""


class WhatHappened(NamedTuple):
    """Something that happened, by its name in the log, and what to do about it."""

    name: str
    to_do: str


_NO_BROKER = WhatHappened(
    "no broker reachable",
    "check that the cluster runs, and that its address can be reached from here; "
    "what was sent and acked waits, and is written as soon as a broker answers",
)
_CONNECTING = {
    KafkaError._TRANSPORT: WhatHappened(
        "broker connection failed",
        "nothing if a broker restarts; else check that this machine reaches the addresses the "
        "brokers give (advertised.listeners), and that the protocol is theirs (security.protocol)",
    ),
    KafkaError._RESOLVE: WhatHappened(
        "broker name not resolved",
        "check the host names in the URL, and those the brokers give (advertised.listeners)",
    ),
}
_LEFT = WhatHappened(
    "group left for want of polls",
    "this process stood still for minutes; what it had fetched comes back by itself",
)
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
    "MAXPOLL": _LEFT,
}
_OTHER_LINE = WhatHappened(
    "librdkafka says", "if it goes on, look at the brokers' logs for its cause"
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
        log.log(logging.INFO if event is _OTHER_LINE else logging.WARNING, event.name, extra=extra)


_teller = Teller()


class Connections:
    """What the error callbacks of the clients with one configuration hear, and no call does."""

    def __init__(
        self, servers: str, teller: Teller = _teller, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._servers = servers
        self._teller = teller
        self._clock = clock
        self._since = self._last = -math.inf
        """When connections began to fail, and when one failed last."""
        self._all_failed = False

    def heard(self, error: KafkaError) -> None:
        """An error of a client itself; one that is fatal reaches its next call."""
        code = error.code()
        if code == KafkaError._ALL_BROKERS_DOWN or code in _CONNECTING:
            self._failed(code, error)
        elif not error.fatal():
            event = _LEFT if code == KafkaError._MAX_POLL_EXCEEDED else _OTHER_ERROR
            self._tell(event, error, code)

    def _failed(self, code: int, error: KafkaError) -> None:
        now = self._clock()
        if now - self._last > _GAP_S:
            self._since, self._all_failed = now, False
        self._last = now
        if code == KafkaError._ALL_BROKERS_DOWN:
            self._all_failed = True
        elif now - self._since >= _PATIENCE_S:
            self._tell(_NO_BROKER if self._all_failed else _CONNECTING[code], error)

    def _tell(self, event: WhatHappened, error: KafkaError, code: int = 0) -> None:
        key = f"{self._servers} {event.name} {code}"
        self._teller.tell(event, error.str(), key=key, servers=self._servers)


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
