"""What is known of a record of the markers log when its producer fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaError

from marq.core.names import DEFAULT
from marq.kafka.client import lasting
from marq.kafka.client.clock import BrokerClock
from marq.kafka.leasing.append_time import AppendTime
from marq.kafka.marking.marker_producer import MarkerProducer, MarkerRecord

Reported = Callable[[KafkaError | None, Any], None]


class Written:
    """A record as its producer reports it."""

    def __init__(self, at_ms: int, kind: int = TIMESTAMP_LOG_APPEND_TIME) -> None:
        self._timestamp = (kind, at_ms)

    def timestamp(self) -> tuple[int, int]:
        return self._timestamp


class FakeProducer:
    """Keeps what it is given until the test says what became of it."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, Reported]] = []
        self._purged: list[Reported] = []

    def produce(self, topic: str, value: bytes, partition: int, on_delivery: Reported) -> None:
        self.records.append((value, on_delivery))

    def answer(self, error: KafkaError | None, written: Written | None = None) -> None:
        """Report its oldest record."""
        _, reported = self.records.pop(0)
        reported(error, written)

    def purge(self) -> None:
        self._purged = [reported for _, reported in self.records]
        self.records = []

    def poll(self, timeout_s: float) -> None:
        purged, self._purged = self._purged, []
        for reported in purged:
            reported(KafkaError(KafkaError._PURGE_QUEUE), None)
        threading.Event().wait(min(timeout_s, 0.01))

    def __len__(self) -> int:
        return len(self.records) + len(self._purged)


class Rig:
    """A producer of markers whose producers are fakes."""

    def __init__(self) -> None:
        self.made: list[FakeProducer] = []
        self.clock = BrokerClock()
        self.clock.sample(0, 1_000)
        self.producer: MarkerProducer
        self.heard: list[AppendTime | None] = []

    def make(self, settings: dict[str, Any]) -> FakeProducer:
        self.made.append(FakeProducer())
        return self.made[-1]

    def write(self, value: bytes = b"x", again: bool = True) -> None:
        self.producer.write(MarkerRecord(0, value, self.heard.append, again=again))


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    rig = Rig()
    monkeypatch.setattr(lasting, "warm_producer", rig.make)
    rig.producer = MarkerProducer({}, DEFAULT.markers, rig.clock)
    yield rig
    rig.producer.close()


def test_the_log_says_when_it_took_a_record(rig: Rig) -> None:
    rig.write()

    rig.made[0].answer(None, Written(1_234))

    assert rig.heard == [AppendTime(1_234, 1_234)]


def test_a_record_sent_again_may_have_been_taken_the_first_time(rig: Rig) -> None:
    rig.write()
    first_ms = rig.clock.now_ms()

    rig.made[0].answer(KafkaError(KafkaError._MSG_TIMED_OUT))
    rig.made[0].answer(None, Written(first_ms + 700_000))

    (taken,) = rig.heard
    assert taken is not None
    assert taken.earliest_ms <= first_ms
    assert taken.latest_ms == first_ms + 700_000


def test_a_record_the_broker_had_already_was_taken_since_it_was_sent(rig: Rig) -> None:
    rig.write()
    first_ms = rig.clock.now_ms()

    rig.made[0].answer(None, Written(0, TIMESTAMP_CREATE_TIME))

    (taken,) = rig.heard
    assert taken is not None
    assert taken.earliest_ms <= first_ms <= taken.latest_ms


def test_a_record_that_can_never_be_written_is_reported_so(rig: Rig) -> None:
    rig.write()

    rig.made[0].answer(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))

    assert rig.heard == [None]


def test_a_beat_is_not_sent_again(rig: Rig) -> None:
    rig.write(again=False)

    rig.made[0].answer(KafkaError(KafkaError._MSG_TIMED_OUT))

    assert rig.heard == [None]
    assert not rig.made[0].records


def test_a_producer_that_lost_its_place_is_replaced_and_loses_no_record(rig: Rig) -> None:
    for value in (b"1", b"2", b"3"):
        rig.write(value)
    old = rig.made[0]

    old.answer(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "", True))

    done = threading.Event()
    for _ in range(500):
        if len(rig.made[1].records) == 3:
            break
        done.wait(0.01)
    assert len(rig.made) == 2
    assert [value for value, _ in rig.made[1].records] == [b"1", b"2", b"3"]


def test_a_flush_waits_for_what_was_written_before_it_and_for_nothing_else(rig: Rig) -> None:
    rig.write(b"before")
    assert not rig.producer.flush(0.01)

    found: list[bool] = []
    flush = threading.Thread(target=lambda: found.append(rig.producer.flush(30)))
    flush.start()
    while not rig.producer._reported._waiters:  # type: ignore[attr-defined]
        pass
    rig.write(b"after")
    rig.made[0].answer(None, Written(1_234))
    flush.join(30)

    assert found == [True]
    assert [value for value, _ in rig.made[0].records] == [b"after"]


def test_a_flush_waits_for_what_has_to_be_sent_again(rig: Rig) -> None:
    rig.write()

    rig.made[0].answer(KafkaError(KafkaError._MSG_TIMED_OUT))
    assert not rig.producer.flush(0.01)
    rig.made[0].answer(None, Written(1_234))

    assert rig.producer.flush(0)
