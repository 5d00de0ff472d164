"""Offsets that nobody claimed, read once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from marq.core.fold.counting import SourceCount
from marq.errors import NotConnected
from marq.kafka.tracker.holes import Holes
from marq.kafka.tracker.queue_counts import Topic


class Log:
    """In place of a seeker: no records, and nobody answers for one topic."""

    def __init__(self) -> None:
        self.reached: dict[tuple[str, int], int] = {}

    def read(self, spans: list[Any]) -> Iterator[Any]:
        self.reached = {(topic, n): end for topic, n, _, end in spans if topic != "away"}
        if len(self.reached) < len(spans):
            raise NotConnected("no broker answers the tracker's reads")
        yield from ()


def with_a_hole(name: str) -> Topic:
    topic_id = name.encode().rjust(16)
    count = SourceCount(topic_id, 0, name, "", [(0, 5), (7, 9)])
    return Topic(name, topic_id, [(0, 9)], [count])


def test_a_partition_that_does_not_answer_keeps_no_other_from_being_passed() -> None:
    log: Any = Log()
    holes = Holes(log)
    orders, away = with_a_hole("orders"), with_a_hole("away")

    with pytest.raises(NotConnected):
        holes.look([orders, away])

    assert (holes.settled(orders, 0), holes.settled(away, 0)) == (9, 5)
