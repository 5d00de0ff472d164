"""Brokers that die, hang and are away while workers run: they wait, and nothing is lost.

Each on a runtime of its own.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

import pytest

import marq
from marq import embedded
from tests.e2e.kafka_fixtures import new_name
from tests.e2e.kafka_oracle import Oracle
from tests.e2e.kafka_process import Crew, eventually
from tests.e2e.load import Load

pytestmark = [
    pytest.mark.java,
    pytest.mark.kafka,
    pytest.mark.e2e,
    pytest.mark.timeout(600),  # brokers of a busy machine take their time to come back
    pytest.mark.skipif("OUTAGES" not in os.environ, reason="takes minutes: make soak runs it"),
]

MOST_LINES = 40
"""On stderr, of a worker, in a test: a line a second would be a flood."""


class Cluster:
    """Brokers, a sender that never stops, and two workers; a context manager that ends it all."""

    def __init__(self, runtime: embedded.Runtime) -> None:
        self._runtime = runtime
        servers = runtime.bootstrap_servers
        self.crew = Crew(servers)
        self.oracle = Oracle(servers)
        self._broker = marq.connect(f"kafka://{servers}")
        self.queue = self._broker.queue(new_name(), partitions=6)
        self.load = Load(self.queue)
        self._ending = ExitStack()

    def pids(self) -> list[int]:
        return [each.pid for each in embedded.status(self._runtime.directory).brokers if each.pid]

    def goes_on(self) -> bool:
        """Whether messages are sent and acked from now on."""
        return self.load.goes_on(self.crew)

    def end_load(self) -> None:
        """Send no more; wait until whatever can be handled is."""
        self.load.stop()

        assert eventually(lambda: not self.unexplained()), [
            (event.word, event.address, round(event.at, 1))
            for event in self.crew.heard_all()
            if event.message_id in list(self.unexplained())[:5]
        ]

    def unexplained(self) -> set[str]:
        """What waits, or is open though nobody lost it."""
        found = self.oracle.look(self.queue.name)
        return found.waiting | found.open - self.crew.ids("lost") - self.unbegun()

    def unbegun(self) -> set[str]:
        """What was claimed and never begun by anyone: it lapsed while no broker answered."""
        return self.load.sent - self.crew.ids("begun")

    def check(self) -> None:
        found = self.oracle.look(self.queue.name)
        print(found)
        assert self.load.sent <= found.sent
        assert not found.lost
        assert {event.address for event in self.crew.heard("acked")} <= found.ended
        for worker in self.crew.members:
            assert worker.running, worker.errors
            assert len(worker.errors) < MOST_LINES, worker.errors

    def __enter__(self) -> Self:
        self._ending.enter_context(self._broker)
        self._ending.callback(self.oracle.close)
        self._ending.enter_context(self.crew)
        self._ending.enter_context(self.load)
        for _ in range(2):
            self.crew.start(self.queue.name, work_s=0.01)
        return self

    def __exit__(self, *error: object) -> None:
        self._ending.close()


@contextmanager
def cluster(directory: Path, brokers: int) -> Iterator[Cluster]:
    """A runtime of its own, under load."""
    runtime = embedded.start(directory, brokers, tracker=False, parent=os.getpid())
    try:
        with Cluster(runtime) as found:
            assert found.goes_on()
            yield found
    finally:
        embedded.stop(directory)


@contextmanager
def frozen(pids: list[int]) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def kill_one_of_three(directory: Path) -> None:
    with cluster(directory, brokers=3) as three:
        os.kill(three.pids()[1], signal.SIGKILL)
        began = time.monotonic()

        assert three.goes_on()
        print(f"one killed: sends and acks went on after {time.monotonic() - began:.1f} s")
        three.end_load()
        three.check()


def freeze_and_restart(directory: Path) -> None:
    with cluster(directory, brokers=1) as one:
        with frozen(one.pids()):
            time.sleep(20)
        began = time.monotonic()
        assert one.goes_on()
        print(f"frozen: sends and acks went on after {time.monotonic() - began:.1f} s")

        embedded.stop(directory)
        embedded.start(directory, tracker=False, parent=os.getpid())
        began = time.monotonic()
        assert one.goes_on()
        print(f"restarted: sends and acks went on after {time.monotonic() - began:.1f} s")

        one.end_load()
        one.check()


@pytest.fixture(scope="module")
def outages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[None]]]:
    """Both at once: most of it is waiting."""
    with ThreadPoolExecutor() as pool:
        yield {
            each.__name__: pool.submit(each, tmp_path_factory.mktemp("outage") / "kafka")
            for each in (kill_one_of_three, freeze_and_restart)
        }


def test_one_of_three_brokers_killed_under_load_loses_nothing_and_all_goes_on(
    outages: dict[str, Future[None]],
) -> None:
    outages["kill_one_of_three"].result()


def test_a_broker_that_is_away_is_waited_for(outages: dict[str, Future[None]]) -> None:
    outages["freeze_and_restart"].result()
