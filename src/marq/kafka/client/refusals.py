"""What brokers and librdkafka refuse, by kind, and how marq says it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

from marq.errors import ConfigError, NotConnected
from marq.kafka.client import doors

T = TypeVar("T")

LEADERLESS = (
    KafkaError._NOENT,
    KafkaError._WAIT_COORD,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
AWAY = (
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._RESOLVE,
)
DENIED = (
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
UNREADABLE = tuple(code for code in DENIED if code != KafkaError.GROUP_AUTHORIZATION_FAILED)
"""Why a reader outside any group gets nothing. librdkafka asks for the group it is given a name of,
which no reader uses: to be refused that one is no matter."""


def unreachable(servers: str) -> NotConnected | ConfigError:
    """No broker answers; where one has said why it does not let us in, that."""
    if (why := doors.of(servers).shut()) is not None:
        return doors.not_let_in(servers, why)
    return NotConnected(f"no broker answers at {servers}: check the address and that Kafka runs")


def refusal(error: KafkaException, servers: str, needed: str = "") -> ConfigError | NotConnected:
    """What the cluster will not do, in a sentence; `needed`: the right that it takes."""
    code, text = error.args[0].code(), error.args[0].str()
    if code in DENIED:
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
            if error.args[0].code() not in LEADERLESS or time.monotonic() > until:
                raise
            time.sleep(0.05)


def answered(call: Callable[[], T], servers: str) -> T:
    """The call's result; `NotConnected` if no broker answered it."""
    try:
        return call()
    except TimeoutError:
        raise unreachable(servers) from None
    except KafkaException as error:
        if error.args[0].code() in AWAY:
            raise unreachable(servers) from None
        raise
