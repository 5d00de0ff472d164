"""Fixtures for tests of the hot path and of the tracker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import Tracked
from tests.e2e.kafka_fixtures import broker, connect, crew, new_queue, oracle
from tests.e2e.tracker_scene import Scene
from tests.e2e.wrong_clocks import wrong_clock
from tests.tracker_process import TrackerProcess

__all__ = ["broker", "connect", "crew", "new_queue", "oracle", "wrong_clock"]


@pytest.fixture
def scene(tracked: Tracked) -> Iterator[Scene]:
    """A scene on the broker that has a tracker."""
    with Scene(tracked.bootstrap_servers) as found:
        yield found


@pytest.fixture
def tracker(tracked: Tracked) -> Iterator[TrackerProcess]:
    """The tracker all tests share; up again afterwards, whatever became of it."""
    yield tracked.tracker
    if not tracked.tracker.running:
        tracked.tracker.kill()
        tracked.tracker.restart().wait_until_ready()
