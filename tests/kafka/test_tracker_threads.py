"""Threads of the tracker that die end it with an error: on a real broker, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from marq import embedded, settings
from marq.spark.tracker import Options, Tracker, TrackerFailed
from tests.e2e.kafka_process import eventually

pytestmark = [pytest.mark.java, pytest.mark.kafka]


@pytest.fixture
def tracker(kafka: embedded.Runtime, tmp_path: Path) -> Iterator[Tracker]:
    found = Tracker(Options(kafka.bootstrap_servers, tmp_path), settings.load())
    yield found
    found.close()


def killed() -> None:
    """As an injected exception ends a thread."""
    raise SystemExit


@pytest.mark.parametrize(
    ("part", "does", "named"), [("_ticks", "tick", "ticks"), ("_keeping", "keep", "housekeeping")]
)
def test_a_thread_that_dies_ends_the_tracker(
    tracker: Tracker, part: str, does: str, named: str
) -> None:
    broken: Any = getattr(tracker, part)
    setattr(broken, does, killed)
    tracker._refuse_to_go_without()

    broken.start()

    assert eventually(lambda: broken.failure is not None)
    with pytest.raises(TrackerFailed, match=named):
        tracker._refuse_to_go_without()
