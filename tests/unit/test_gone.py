"""Topics count as gone only when they have been missing for a while."""

from __future__ import annotations

import pickle

from marq.core.fold.counting import SourceCount
from marq.kafka.tracker.gone import GONE_S, MOST, Gone
from marq.spark.acting import Acting

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


def test_a_topic_is_gone_only_if_it_was_missing_when_it_was_asked_for_again() -> None:
    """With tens of thousands of topics that may be a long time after it was missing first."""
    gone = Gone()
    gone.look(SOURCES, {"orders": None}, now=0)

    assert not gone.look(SOURCES, {}, now=GONE_S)
    assert gone.look(SOURCES, {"orders": None}, now=GONE_S + 1) == {OLD}
    assert gone.look(SOURCES, {}, now=GONE_S + 2) == {OLD}
    assert not gone.look(SOURCES, {"orders": OLD}, now=GONE_S + 3)


def test_what_travels_with_each_batch_is_small_however_many_topics_were_deleted() -> None:
    """What has 1 MB Spark writes to a file, batch by batch, that it never removes."""
    gone = Gone()
    ids = [number.to_bytes(16, "big") for number in range(MOST * 10)]
    sources = [SourceCount(each, 0, "orders", "", []) for each in ids]
    gone.look(sources, {"orders": None}, now=0)

    found = gone.look(sources, {"orders": None}, now=GONE_S)
    act = Acting("host:9092", (), "", found)

    assert len(found) == MOST
    assert gone.look(sources, {"orders": None}, now=GONE_S + 1) == found
    assert len(pickle.dumps(act)) < 500_000
