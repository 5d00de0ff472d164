"""Markers of a process: whatever goes wrong with one, the others are written and all are told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException

from marq.core.markers import codec
from marq.core.markers.marker import Action, Claim, ClaimId, Held, Hold, Progress, Source
from marq.core.names import DEFAULT
from marq.errors import DeliveryError, LeaseLost, NotConnected, QueueError
from marq.kafka.client import lasting
from marq.kafka.client.answers import Answer
from marq.kafka.leasing import statements
from marq.kafka.leasing.handout import Handout
from marq.kafka.leasing.live import LiveClaim
from marq.kafka.marking import markers
from marq.kafka.marking.markers import Markers
from marq.kafka.receiving.delivery import KafkaDelivery

PATIENCE_S = 30.0
UNSAYABLE = cast(str, None)
"""A reason that no codec can write."""


class Message:
    """What a delivery refers to."""

    def topic(self) -> str:
        return "q"

    def partition(self) -> int:
        return 0

    offset = partition

    def timestamp(self) -> tuple[int, int]:
        return TIMESTAMP_LOG_APPEND_TIME, 1_000

    def headers(self) -> None: ...

    key = value = headers


class Written:
    """A record as its producer reports it."""

    def timestamp(self) -> tuple[int, int]:
        return TIMESTAMP_LOG_APPEND_TIME, 1_000


class Broker:
    """Takes records, up to a size; what it has heard is reported in the next poll."""

    def __init__(self) -> None:
        self.most = 1_000_000
        self.taken: list[Any] = []
        self.poll_fails: BaseException | None = None
        self._reports: list[Callable[[], None]] = []

    def produce(self, topic: str, value: bytes, partition: int, on_delivery: Any) -> None:
        if len(value) > self.most:
            error = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
            self._reports.append(lambda: on_delivery(error, None))
        else:
            self.taken.append(codec.decode(value))
            self._reports.append(lambda: on_delivery(None, Written()))

    def poll(self, timeout_s: float) -> None:
        if self.poll_fails is not None:
            raise self.poll_fails
        reports, self._reports = self._reports, []
        for report in reports:
            report()
        if not reports:
            time.sleep(0.001)

    def purge(self) -> None: ...

    def __len__(self) -> int:
        return len(self._reports)

    def of(self, kind: type[Any]) -> list[Any]:
        return [each for each in self.taken if isinstance(each, kind)]


class Rig:
    """Markers on such a broker, and messages in someone's hands."""

    def __init__(self) -> None:
        self.brokers: list[Broker] = []
        self.failed: list[QueueError] = []
        self.markers = cast(Markers, None)
        self._sequence = 0

    def make(self, settings: dict[str, Any]) -> Broker:
        self.brokers.append(Broker())
        return self.brokers[-1]

    @property
    def broker(self) -> Broker:
        return self.brokers[-1]

    def handout(self, messages: int = 1) -> Handout:
        """Of a claim that is this process's until 5,000."""
        self._sequence += 1
        claim_id = ClaimId(1, self._sequence)
        claim = Claim(claim_id, Source(bytes(16), 0, "q", "", 0), 0, ((0, messages),), 500)
        live = LiveClaim(claim, [None] * messages, messages, self.markers.ledgers[0])
        live.lapse_ms, live.unbegun = 5_000, 0
        live.committed()
        return Handout(cast(Any, SimpleNamespace(settled=0)), live, 0, messages, 1)

    def reject(self, handout: Handout, index: int, reason: str) -> Answer[None]:
        held = Held(handout.claim.claim.id, 1 << index, Action.BURY, reason=reason)
        return handout.hold(held, leaves=True)


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    rig = Rig()
    monkeypatch.setattr(lasting, "warm_producer", rig.make)
    rig.markers = Markers({}, (DEFAULT.markers, 1), 1, rig.failed.append)
    yield rig
    if rig.markers.failure is None:
        rig.markers.close()


def test_one_statement_that_cannot_be_written_keeps_no_other_from_the_log(rig: Rig) -> None:
    bad, good = rig.handout(), rig.handout()

    with rig.markers._flushing:  # all in one batch
        receipts = [rig.reject(bad, 0, UNSAYABLE), rig.reject(good, 0, "no good"), good.end(0)]
        wrong, held, _ = receipts

    held.result(PATIENCE_S)
    with pytest.raises(QueueError, match="not settled"):
        wrong.result(PATIENCE_S)
    assert rig.markers.flush(PATIENCE_S)
    assert [held.reason for hold in rig.broker.of(Hold) for held in hold.held] == ["no good"]


def test_what_cannot_be_written_is_kept_from_nobody(rig: Rig) -> None:
    handout = rig.handout()

    with pytest.raises(QueueError):
        rig.reject(handout, 0, UNSAYABLE).result(PATIENCE_S)

    assert not rig.markers.ledgers[0].claims


def test_holds_that_are_too_large_for_one_record_are_written_in_several(rig: Rig) -> None:
    handout = rig.handout(5_000)

    with rig.markers._flushing:
        receipts = [rig.reject(handout, index, "ö" * 300) for index in range(5_000)]

    receipts[-1].result(PATIENCE_S)
    assert len(rig.broker.of(Hold)) > 1
    written = [held.indexes for hold in rig.broker.of(Hold) for held in hold.held]
    assert written == [1 << index for index in range(5_000)]


def test_what_a_broker_refuses_for_its_size_is_written_in_parts(rig: Rig) -> None:
    rig.broker.most = 2_000
    handouts = [rig.handout() for _ in range(50)]

    with rig.markers._flushing:
        receipts = [rig.reject(handout, 0, "x" * 300) for handout in handouts]

    for receipt in receipts:
        receipt.result(PATIENCE_S)
    assert sum(len(hold.held) for hold in rig.broker.of(Hold)) == 50


def test_a_report_that_fails_ends_nothing_and_is_told(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = rig.handout(), rig.handout()

    def judge(self: Handout, taken: object) -> bool:
        if self is bad:
            raise KeyError("injected")
        return True

    monkeypatch.setattr(Handout, "judge", judge)
    wrong, right = bad.end(0), good.end(0)

    right.result(PATIENCE_S)
    with pytest.raises(KeyError, match="injected"):
        wrong.result(PATIENCE_S)
    assert rig.markers.flush(PATIENCE_S)


def test_a_batch_that_could_not_be_written_is_told_and_the_next_one_is(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = rig.handout(), rig.handout()

    def fail(batch: object) -> object:
        raise MemoryError("injected")

    with monkeypatch.context() as broken:
        broken.setattr(statements.LedgerBatch, "statements", lambda batch: fail(batch))
        with pytest.raises(MemoryError):
            receipt = first.end(0)
            rig.markers.flush_now()

    with pytest.raises(QueueError, match="injected"):
        receipt.result(PATIENCE_S)
    second.end(0).result(PATIENCE_S)
    assert rig.broker.of(Progress)


def test_a_flusher_that_dies_is_told_to_everyone(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def die() -> None:
        raise RuntimeError("injected")

    monkeypatch.setattr(rig.markers.clock, "tick", die)
    rig.markers._flusher.join(PATIENCE_S)

    for call in (rig.handout().end(0).result, rig.markers.flush):
        with pytest.raises(QueueError, match="injected"):
            call(PATIENCE_S)
    assert rig.failed


def test_a_reporter_that_dies_is_told_to_everyone(rig: Rig) -> None:
    waiting: list[BaseException] = []

    def wait() -> None:
        try:
            rig.markers.flush(PATIENCE_S)
        except QueueError as error:
            waiting.append(error)

    rig.markers.flush(PATIENCE_S)
    rig.broker.poll_fails = ValueError("injected")
    receipt = rig.handout().end(0)
    flush = threading.Thread(target=wait)
    flush.start()

    with pytest.raises(QueueError, match="injected"):
        receipt.result(PATIENCE_S)
    flush.join(PATIENCE_S)
    assert waiting
    assert rig.failed


def test_a_fatal_error_that_a_poll_raises_ends_no_reporter(rig: Rig) -> None:
    fatal = KafkaException(KafkaError(KafkaError._FATAL, "injected", True))

    rig.broker.poll_fails = fatal
    while len(rig.brokers) < 2:
        time.sleep(0.001)
    rig.brokers[0].poll_fails = None

    rig.handout().end(0).result(PATIENCE_S)
    assert not rig.failed


def test_an_ack_after_all_that_comes_too_late_is_a_lost_lease(rig: Rig) -> None:
    handout = rig.handout()
    handout.claim.lapse_ms = 900

    with pytest.raises(LeaseLost):
        handout.end(0).result(PATIENCE_S)


def test_what_was_settled_in_vain_is_told_to_whoever_flushes(rig: Rig) -> None:
    rig.broker.most = 10
    asked = rig.reject(rig.handout(), 0, "asked")
    rig.reject(rig.handout(), 0, "not asked")
    assert rig.markers.flush(PATIENCE_S)
    with pytest.raises(QueueError):
        asked.result(PATIENCE_S)

    with pytest.raises(QueueError, match="1 acks, retries or rejects are not in the log"):
        rig.markers.tell()

    rig.markers.tell()


def test_closing_before_the_log_took_all_is_an_error_and_so_are_acks_from_then_on(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(markers, "CLOSE_S", 0.05)
    handout = rig.handout(2)
    first, second = (KafkaDelivery[Any](handout, n, Message()) for n in range(2))
    monkeypatch.setattr(rig.broker, "poll", lambda timeout_s: time.sleep(0.001))
    receipt = first.ack()

    with pytest.raises(NotConnected, match="1 acks, retries or rejects are not in the log"):
        rig.markers.close()

    with pytest.raises(NotConnected, match="closed"):
        receipt.result(PATIENCE_S)
    for settle in (second.ack, second.retry, second.give_back):
        with pytest.raises(DeliveryError, match="the broker was closed"):
            settle()
