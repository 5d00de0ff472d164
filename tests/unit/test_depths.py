"""Counts of records, made by reading them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from marq.kafka.tracker.depths import STRETCH, Depths, taken

IDS = {"orders": b"a" * 16, "bills": b"b" * 16}


class Message:
    """A record as librdkafka has it; an odd one cannot be understood."""

    def __init__(self, topic: str, offset: int) -> None:
        self._topic, self._offset = topic, offset

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 2, 1_000

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b""

    def headers(self) -> None:
        if self._topic == "odd":
            raise SystemError("a header that is no text")


class Log:
    """In place of a seeker: every offset holds a record."""

    def __init__(self) -> None:
        self.read_spans: list[Any] = []
        self.reached: dict[tuple[str, int], int] = {}
        self.decided = 1 << 62
        """From here on transactions are undecided."""

    @property
    def unread(self) -> list[tuple[str, int]]:
        return [
            (topic, number)
            for topic, number, _, end in self.read_spans
            if self.reached[topic, number] < end
        ]

    def read(self, spans: list[Any]) -> Iterator[Message]:
        self.read_spans += spans
        for topic, number, start, end in spans:
            self.reached[topic, number] = min(end, self.decided)
            yield from (Message(topic, offset) for offset in range(start, min(end, self.decided)))


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def depths(log: Log) -> Depths:
    seeker: Any = log
    return Depths(seeker)


def test_an_odd_record_keeps_no_other_queue_from_being_counted(
    depths: Depths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("marq.kafka.tracker.depths.stored", fragile)
    odd, orders = ("odd", 0), ("orders", 0)

    found = depths.messages({odd: (0, 1), orders: (0, 2)})

    assert len(taken(found, orders)) == 2
    with pytest.raises(SystemError):
        taken(found, odd)


def fragile(message: Any) -> Any:
    """As the record's value was made before odd headers were thought of."""
    from marq.kafka.client.record import stored

    message.headers()
    return stored(message)


def counted(depths: Depths, place: tuple[str, int], start: int, end: int) -> list[tuple[int, int]]:
    """The records there, read as far as it goes."""
    depths.follow({place: (start, end)})
    return list(depths.records(place, start, end))


def test_what_was_read_is_not_read_again_but_in_another_topic_of_the_name(
    depths: Depths, log: Log
) -> None:
    depths.know(IDS)
    counted(depths, ("orders", 0), 0, 5)
    depths.know(IDS)
    counted(depths, ("orders", 0), 0, 7)
    assert log.read_spans == [("orders", 0, 0, 5), ("orders", 0, 5, 7)]

    depths.know({**IDS, "orders": b"c" * 16})
    counted(depths, ("orders", 0), 0, 9)

    assert log.read_spans[2:] == [("orders", 0, 0, 9)]


def test_what_a_transaction_hides_is_counted_when_it_has_ended(depths: Depths, log: Log) -> None:
    place, span = ("orders", 0), (0, 5)
    log.decided = 3

    assert counted(depths, place, *span) == [(0, 3)]
    assert len(taken(depths.messages({place: span}), place)) == 3

    log.decided = 5
    assert counted(depths, place, *span) == [span]
    assert len(taken(depths.messages({place: span}), place)) == 5


def test_what_was_trimmed_before_it_was_counted_is_not_asked_for(depths: Depths, log: Log) -> None:
    counted(depths, ("orders", 0), 0, 5)

    assert counted(depths, ("orders", 0), 7, 9) == [(7, 9)]
    assert log.read_spans[-1] == ("orders", 0, 7, 9)


def test_of_many_records_some_are_read_at_a_time_and_the_rest_is_reckoned(
    depths: Depths, log: Log
) -> None:
    place, end = ("orders", 0), 2 * STRETCH + 5

    assert counted(depths, place, 0, end) == [(0, end)]
    assert log.read_spans == [("orders", 0, 0, STRETCH)]
    assert depths.is_behind(place, end)
    counted(depths, place, 0, end)
    counted(depths, place, 0, end)
    assert not depths.is_behind(place, end)
    assert log.read_spans[1:] == [
        ("orders", 0, STRETCH, 2 * STRETCH),
        ("orders", 0, 2 * STRETCH, end),
    ]


def test_what_was_read_of_one_queue_is_known_when_others_were_looked_at_meanwhile(
    depths: Depths, log: Log
) -> None:
    depths.messages({("orders", 0): (0, 2)})
    depths.messages({("bills", 0): (0, 2)})
    depths.follow({("orders", 0): (0, 3), ("bills", 0): (0, 4)})
    read = list(log.read_spans)

    depths.messages({("orders", 0): (0, 2), ("bills", 0): (0, 2)})
    depths.follow({("orders", 0): (0, 3), ("bills", 0): (0, 4)})
    assert log.read_spans == read

    depths.forget_others({"bills"})
    depths.messages({("orders", 0): (0, 2), ("bills", 0): (0, 2)})
    assert log.read_spans == [*read, ("orders", 0, 0, 2)]
