"""What tests of all kinds share: the one real broker of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from marq import embedded
from tests.tracker_process import TrackerProcess


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[embedded.Runtime]:
    """A real single broker, started when the first test asks and stopped at the end of the run."""
    directory = tmp_path_factory.mktemp("kafka")
    # Without a tracker: who wants one starts it. It ends with this process, even a killed one.
    runtime = embedded.start(directory, tracker=False, parent=os.getpid())
    yield runtime
    runtime.stop()


@pytest.fixture(scope="session")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[embedded.Runtime]:
    """A real broker and a tracker that keeps time on it; of its own, so that tests of what workers
    do alone are not disturbed."""
    directory = tmp_path_factory.mktemp("tracked")
    runtime = embedded.start(directory / "runtime")
    with TrackerProcess(runtime.bootstrap_servers, directory / "checkpoint") as tracker:
        tracker.wait_until_ready()
        yield runtime
    runtime.stop()
