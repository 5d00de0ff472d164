"""What a cluster says at the door to clients it does not let in, and which setting has to change.

librdkafka tries for ever, whatever the reason: a wrong password looks like a broker that is away.
The reason reaches nobody but the error callback of the client, which is asked here.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from confluent_kafka import KafkaError

from marq.errors import ConfigError

log = logging.getLogger("marq.kafka")

FRESH_S = 10.0
"""A client that is refused tries again within a second: an older reason may no longer hold."""
_LOG_EVERY_S = 60.0

CLOSES = (
    "it takes connections and closes them without a word: check security.protocol (SSL or SASL_SSL "
    "where the port speaks TLS)"
)


class _Sign(NamedTuple):
    code: int
    said: re.Pattern[str]
    means: str


def _sign(code: int, said: str, means: str) -> _Sign:
    return _Sign(code, re.compile(said, re.IGNORECASE), means)


_SIGNS = (
    _sign(
        KafkaError._AUTHENTICATION,
        r"supported mechanisms: (?P<found>[\w,-]+)",
        "the cluster does not know this way to log in: set sasl.mechanism to one of {found}",
    ),
    _sign(
        KafkaError._AUTHENTICATION,
        r"",
        "the cluster refuses the user or the password: check sasl.username and sasl.password",
    ),
    _sign(
        KafkaError._SSL,
        r"certificate verify failed|certificate has expired",
        "the broker's certificate is not trusted: ssl.ca.location must name the file of its CA, "
        "the address must be a name that stands in the certificate, and it must not have expired",
    ),
    _sign(
        KafkaError._SSL,
        r"wrong version number|unsupported protocol|packet length too long|http request",
        "what answers does not speak TLS: set security.protocol to PLAINTEXT or SASL_PLAINTEXT, "
        "or take the port that speaks TLS",
    ),
    _sign(KafkaError._SSL, r"", "no TLS connection comes about: check the ssl settings"),
    _sign(
        KafkaError._TRANSPORT,
        r"ssl/tls alert|alert (bad|unknown|certificate|handshake)",
        "the broker refuses the certificate it was shown, or wants one: check "
        "ssl.certificate.location and ssl.key.location, whether the certificate has expired, and "
        "that its CA is one the broker trusts",
    ),
    _sign(
        KafkaError._TRANSPORT,
        r"disconnected",
        "the broker closes the connection as soon as it is made: check security.protocol",
    ),
)


def reason(code: int, text: str) -> str | None:
    """Why a client is not let in, and which setting to change; None: it says something else."""
    for sign in _SIGNS:
        found = sign.said.search(text) if sign.code == code else None
        if found is not None:
            return sign.means.format_map(found.groupdict())
    return None


class Door:
    """What all clients of a cluster in this process hear at its door."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._said: tuple[str, float] | None = None
        """The last reason, and when it was given."""
        self._down = self._away = False
        self._quiet_until: dict[str, float] = {}

    def heard(self, error: KafkaError) -> bool:
        """An error that a client was told; whether it says why clients are not let in."""
        code, text = error.code(), error.str()
        found = reason(code, text)
        with self._lock:
            self._down = self._down or code == KafkaError._ALL_BROKERS_DOWN
            self._away = self._away or code in (KafkaError._TRANSPORT, KafkaError._RESOLVE)
            if found is None:
                return False
            now = self._clock()
            self._said = found, now
            is_news = now >= self._quiet_until.get(found, now)
            if is_news:
                self._quiet_until[found] = now + _LOG_EVERY_S
        if is_news:
            log.warning("not let in", extra={"reason": found, "error": text})
        return True

    def shut(self) -> str | None:
        """Why clients were not let in just now; None: no broker has said."""
        with self._lock:
            if self._said is None or self._clock() - self._said[1] >= FRESH_S:
                return None
            return self._said[0]

    def closes(self) -> bool:
        """Whether brokers take connections and close them again without a word, as those that
        speak TLS do to clients that do not. To be asked only while no client got in yet."""
        return self._down and not self._away


@lru_cache
def of(servers: str) -> Door:
    """The door of the cluster at this address."""
    return Door()


def not_let_in(servers: str, why: str) -> ConfigError:
    """The error for a user who has to change a setting."""
    return ConfigError(f"the cluster at {servers} does not let us in: {why}")
