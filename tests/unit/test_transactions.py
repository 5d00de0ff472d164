"""What a tracker's producer makes of records that are not taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import KafkaError, KafkaException

from marq.core.messages.stored import Outgoing
from marq.kafka.client import transactions
from marq.kafka.client.transactions import Away, Transactions, Unsure

LOG = Outgoing("marq.markers", 0, None, b"ends", ())


class Producer:
    """Librdkafka's, to which nobody answers for some topics."""

    away: tuple[str, ...] = ()
    opened = 0

    def __init__(self, settings: object) -> None:
        Producer.opened += 1
        self._reports: list[Callable[[], None]] = []
        self._failed = False

    def init_transactions(self, timeout_s: float) -> None: ...

    def begin_transaction(self) -> None: ...

    def produce(self, topic: str, *_: object, on_delivery: Any, **__: object) -> None:
        error = KafkaError(KafkaError._MSG_TIMED_OUT) if topic in self.away else None
        self._failed |= error is not None
        self._reports.append(lambda: on_delivery(error, None))

    def flush(self, timeout_s: float) -> int:
        reports, self._reports = self._reports, []
        for report in reports:
            report()
        return 0

    def commit_transaction(self, timeout_s: float) -> None:
        if self._failed:
            raise KafkaException(KafkaError(KafkaError._INCONSISTENT))

    def purge(self) -> None: ...


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Transactions:
    monkeypatch.setattr(transactions, "warm_producer", Producer)
    monkeypatch.setattr(Producer, "opened", 0)
    return Transactions({}, "marq.tracker.0")


def to(*topics: str) -> list[Outgoing]:
    return [Outgoing(topic, 3, None, b"", ()) for topic in topics]


def test_where_the_log_takes_its_record_and_others_do_not_their_partitions_are_named(
    producer: Transactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Producer, "away", ("orders",))

    with pytest.raises(Away) as failed:
        producer.write([*to("orders", "bills", "orders"), LOG])

    assert failed.value.places == {("orders", 3)}
    assert Producer.opened == 2  # what was begun is over
    assert producer.write([*to("bills"), LOG]) == set()


@pytest.mark.parametrize("records", [[*to("orders"), LOG], [LOG]], ids=["all", "alone"])
def test_where_the_log_takes_nothing_it_is_not_known_who_is_away(
    producer: Transactions, monkeypatch: pytest.MonkeyPatch, records: list[Outgoing]
) -> None:
    monkeypatch.setattr(Producer, "away", ("orders", LOG.topic))

    with pytest.raises(Unsure):
        producer.write(records)
