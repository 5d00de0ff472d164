"""What whoever sends is told when messages are not taken."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError

from marq.errors import ConfigError, NotConnected
from marq.kafka.client import lasting
from marq.kafka.sending import sender
from marq.kafka.sending.sender import Sender

PATIENCE_S = 30.0


class Refused:
    """A message in the report that says it was refused."""

    def topic(self) -> str:
        return "orders"


class Broker:
    """Refuses what it is sent, once it is awake."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.awake = True
        self._reports: list[Callable[..., None]] = []

    def produce(self, *about: Any, on_delivery: Any, **more: Any) -> None:
        self._reports.append(on_delivery)

    def poll(self, timeout_s: float) -> None:
        while self.awake and self._reports:
            self._reports[0](KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), Refused())
            self._reports.pop(0)
        time.sleep(min(timeout_s, 0.001))

    flush = poll

    def __len__(self) -> int:
        return len(self._reports)


@pytest.fixture
def sending(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sender]:
    monkeypatch.setattr(lasting, "warm_producer", Broker)
    monkeypatch.setattr(sender, "_CLOSE_S", 0.05)
    found = Sender({})
    yield found
    found.close()


def test_a_message_that_was_refused_and_not_asked_for_is_told_of_once(sending: Sender) -> None:
    for _ in range(3):
        sending.send_plain("orders", b"x", None)
    sending.flush(PATIENCE_S)

    with pytest.raises(ConfigError, match="3 sent messages are not in the log: there is no queue"):
        sending.tell()

    sending.tell()


def test_what_the_sender_asked_for_itself_is_told_to_nobody_else(sending: Sender) -> None:
    refused = sending.send_plain("orders", b"x", None)
    for _ in range(2):
        with pytest.raises(ConfigError):
            refused.result(PATIENCE_S)

    sending.tell()

    assert sending.unsent() == 0


def test_closing_before_the_log_took_all_is_an_error_and_so_are_the_results(
    sending: Sender,
) -> None:
    sending._producer.awake = False  # type: ignore[attr-defined]
    waiting = sending.send_plain("orders", b"x", None)

    with pytest.raises(NotConnected, match="1 sent messages are not in the log"):
        sending.close()

    with pytest.raises(NotConnected, match="closed"):
        waiting.result(PATIENCE_S)
