"""Threads of the tracker that die end it with an error: on a real broker, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from marq import embedded, settings
from marq.spark.tracker import Options, Tracker, TrackerFailed
from tests.kafka.killing import kill

pytestmark = [pytest.mark.java, pytest.mark.kafka]


@pytest.fixture
def tracker(kafka: embedded.Runtime, tmp_path: Path) -> Iterator[Tracker]:
    found = Tracker(Options(kafka.bootstrap_servers, tmp_path), settings.load())
    yield found
    found.close()


@pytest.mark.parametrize(
    ("part", "thread", "named"),
    [("_ticks", "marq-ticks", "ticks"), ("_keeping", "marq-keeping", "housekeeping")],
)
def test_a_thread_that_dies_ends_the_tracker(
    tracker: Tracker, part: str, thread: str, named: str
) -> None:
    doomed: Any = getattr(tracker, part)
    doomed.start()
    tracker._refuse_to_go_without()

    kill(thread)

    with pytest.raises(TrackerFailed, match=named):
        tracker._refuse_to_go_without()
