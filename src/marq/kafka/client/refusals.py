"""How marq says what brokers and librdkafka refuse."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaException

from marq.errors import ConfigError, NotConnected
from marq.kafka.client import codes, doors

T = TypeVar("T")


def unreachable(servers: str) -> NotConnected | ConfigError:
    """The error where no broker answers: why we are not let in, if a broker has said so."""
    if (why := doors.of(servers).shut()) is not None:
        return doors.not_let_in(servers, why)
    return NotConnected(f"no broker answers at {servers}: check the address and that Kafka runs")


def refusal(error: KafkaException, servers: str, needed: str = "") -> ConfigError | NotConnected:
    """What the cluster will not do, in a sentence; `needed`: the right that it takes."""
    text = error.args[0].str()
    if codes.is_denied(error.args[0]):
        return denied(needed, f"{text}, says {servers}")
    return NotConnected(f"the cluster at {servers} refuses: {text}")


class Denied(ConfigError):
    """A right is missing: the operator's to give, and final until then."""


def denied(needed: str, said: str) -> Denied:
    """The error for who lacks a right; `needed`: which, where that is known."""
    right = f": it takes {needed}" if needed else ""
    return Denied(
        f"the cluster refuses the credentials or rights{right} ({said}); "
        f"docs/security.md has the rights of each role"
    )


def patiently(call: Callable[[], T], timeout_s: float) -> T:
    """The call's result; tried again while a leader is being found."""
    until = time.monotonic() + timeout_s
    while True:
        try:
            return call()
        except KafkaException as error:
            if not codes.is_leaderless(error.args[0]) or time.monotonic() > until:
                raise
            time.sleep(0.05)


def answered(call: Callable[[], T], servers: str) -> T:
    """The call's result; `NotConnected` if no broker answered it."""
    try:
        return call()
    except TimeoutError:
        raise unreachable(servers) from None
    except KafkaException as error:
        if codes.is_away(error.args[0]):
            raise unreachable(servers) from None
        raise
