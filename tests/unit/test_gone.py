"""Topics count as gone only when they have been missing for a while."""

from __future__ import annotations

from marq.core.fold.counting import SourceCount
from marq.kafka.tracker.gone import GONE_S, Gone

OLD, NEW = b"o" * 16, b"n" * 16
SOURCES = [SourceCount(OLD, partition, "orders", "", []) for partition in range(2)]


def test_a_topic_is_gone_when_it_was_missing_all_the_while() -> None:
    gone = Gone()

    assert not gone.look(SOURCES, {"orders": None}, now=0)
    assert not gone.look(SOURCES, {"orders": None}, now=GONE_S - 1)
    assert gone.look(SOURCES, {"orders": None}, now=GONE_S) == {OLD}


def test_a_topic_made_again_under_its_name_is_another() -> None:
    gone = Gone()
    sources = [*SOURCES, SourceCount(NEW, 0, "orders", "", [])]
    gone.look(sources, {"orders": NEW}, now=0)

    assert gone.look(sources, {"orders": NEW}, now=GONE_S) == {OLD}


def test_a_topic_that_was_there_meanwhile_is_not_gone() -> None:
    gone = Gone()
    gone.look(SOURCES, {"orders": None}, now=0)
    gone.look(SOURCES, {"orders": OLD}, now=1)

    assert not gone.look(SOURCES, {"orders": None}, now=GONE_S)


def test_a_topic_that_nobody_was_asked_for_is_not_gone() -> None:
    gone = Gone()
    gone.look(SOURCES, {}, now=0)

    assert not gone.look(SOURCES, {}, now=GONE_S)
