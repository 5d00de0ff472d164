"""Which messages go at once, and which are gathered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from marq.errors import NotConnected
from marq.kafka.client import lasting
from marq.kafka.sending import sender
from marq.kafka.sending.senders import FEW, Senders

PATIENCE_S = 30.0


class Taken:
    """A message in the report that says it is in the log."""

    def topic(self) -> str:
        return "orders"

    partition = offset = staticmethod(lambda: 0)
    timestamp = staticmethod(lambda: (2, 1_700_000_000_000))


class Broker:
    """Takes what it is sent, once it is awake."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.linger_ms = settings["linger.ms"]
        self._awake = True
        self._lock = threading.Lock()
        self._reports: list[Callable[..., None]] = []

    def produce(self, *about: Any, on_delivery: Any, **more: Any) -> None:
        self._reports.append(on_delivery)

    def poll(self, timeout_s: float) -> None:
        with self._lock:
            if self._awake and self._reports:
                self._reports.pop(0)(None, Taken())
        time.sleep(min(timeout_s, 0.001))

    flush = poll

    def awake(self, is_awake: bool) -> None:
        with self._lock:
            self._awake = is_awake

    def __len__(self) -> int:
        return len(self._reports)


@pytest.fixture
def senders(monkeypatch: pytest.MonkeyPatch) -> Iterator[Senders]:
    monkeypatch.setattr(lasting, "warm_producer", Broker)
    monkeypatch.setattr(sender, "_CLOSE_S", 0.05)
    found = Senders(lambda linger_ms: {"linger.ms": linger_ms}, 5, lambda error: None)
    yield found
    found.close()


def lingers(found: sender.Sender) -> float:
    return float(found._settings["linger.ms"])


def test_what_is_waited_for_goes_at_once_and_the_rest_is_gathered(senders: Senders) -> None:
    assert lingers(senders.at_once(1)) == lingers(senders.at_once(FEW)) == 0
    assert lingers(senders.gathering) == lingers(senders.at_once(FEW + 1)) == 5


def test_what_is_waited_for_does_not_overtake_what_was_gathered(senders: Senders) -> None:
    senders.gathering._producer.awake(False)  # type: ignore[attr-defined]
    first = senders.gathering.send_plain("orders", b"1", None)

    assert senders.at_once(1) is senders.gathering

    senders.gathering._producer.awake(True)  # type: ignore[attr-defined]
    first.result(PATIENCE_S)
    senders.flush(PATIENCE_S)
    assert senders.at_once(1) is senders.prompt


@pytest.mark.parametrize("which", ["gathering", "prompt"])
def test_what_either_has_not_sent_is_flushed_counted_and_told(senders: Senders, which: str) -> None:
    slow: sender.Sender = getattr(senders, which)
    slow._producer.awake(False)  # type: ignore[attr-defined]
    slow.send_plain("orders", b"1", None)

    assert senders.unsent() == 1
    with pytest.raises(NotConnected, match="1 messages are not durable"):
        senders.flush(0.05)
    with pytest.raises(NotConnected, match="1 sent messages are not in the log"):
        senders.close()
