"""What tests of all kinds share: the one real broker of a run."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from marq import embedded
from tests.tracker_process import TrackerProcess


def pytest_configure() -> None:
    """Interrupt as in a terminal: a shell starts what runs in the background with SIGINT ignored,
    and every process started by a test would inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what runs beside the one tracker: `make test` runs that side by side with the rest."""
    needs = item.get_closest_marker("needs_tracker") is not None and "kafka" in item.name
    if needs or "tracked" in getattr(item, "fixturenames", ()):
        item.add_marker("tracked")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests with a tracker last: it takes half a core, which others would miss. And the
    hostile ones after all that share their broker: what one of them breaks is its own failure."""
    items.sort(
        key=lambda item: (
            item.get_closest_marker("tracked") is not None,
            "hostile" in item.path.parts,
        )
    )


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[embedded.Runtime]:
    """A real single broker, started when the first test asks and stopped at the end of the run."""
    directory = tmp_path_factory.mktemp("kafka")
    # Without a tracker: who wants one starts it. It ends with this process, even a killed one.
    runtime = embedded.start(directory, tracker=False, parent=os.getpid())
    yield runtime
    runtime.stop()


@dataclass(frozen=True)
class Tracked:
    """A broker and the tracker that keeps time on it."""

    runtime: embedded.Runtime
    tracker: TrackerProcess
    checkpoint: Path

    @property
    def bootstrap_servers(self) -> str:
        return self.runtime.bootstrap_servers


@pytest.fixture(scope="session")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tracked]:
    """A real broker with a tracker; of its own, so that tests of what workers do alone are not
    disturbed. Whoever kills the tracker starts it again."""
    directory = tmp_path_factory.mktemp("tracked")
    checkpoint = directory / "checkpoint"
    runtime = embedded.start(directory / "runtime", tracker=False, parent=os.getpid())
    with TrackerProcess(runtime.bootstrap_servers, checkpoint) as tracker:
        tracker.wait_until_ready()
        yield Tracked(runtime, tracker, checkpoint)
    runtime.stop()
