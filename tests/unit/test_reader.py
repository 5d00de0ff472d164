"""What keeps records from being read is never taken for the end of a log."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError

from marq.errors import ConfigError, NotConnected
from marq.kafka.cluster import reader
from marq.kafka.cluster.reader import LogReader


class Told:
    """What a consumer hands out instead of a record."""

    def __init__(self, code: int) -> None:
        self._error = KafkaError(code)

    def error(self) -> KafkaError:
        return self._error

    def partition(self) -> int:
        return 0


class Consumer:
    """One that has only this to tell."""

    def __init__(self, code: int) -> None:
        self._told = [Told(code)]

    def list_topics(self, topic: str, timeout: float) -> None:
        pass

    def incremental_assign(self, places: list[Any]) -> None:
        pass

    def consume(self, limit: int, wait_s: float) -> list[Told]:
        told, self._told = self._told, []
        return told

    def close(self) -> None:
        pass


def read(monkeypatch: pytest.MonkeyPatch, code: int) -> list[Any]:
    monkeypatch.setattr(reader, "Consumer", lambda settings: Consumer(code))
    admin: Any = None
    found = LogReader({"bootstrap.servers": "here"}, admin, 0.1).read("orders", {0: (0, 9)})
    return list(found)


def test_only_the_end_of_a_partition_is_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, KafkaError._PARTITION_EOF) == []


def test_a_right_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"rights: it takes READ on topic 'orders'"):
        read(monkeypatch, KafkaError.TOPIC_AUTHORIZATION_FAILED)


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._BAD_MSG,
    ],
)
def test_what_else_goes_wrong_is_an_error(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    with pytest.raises(NotConnected):
        read(monkeypatch, code)
