"""The tracker on a Spark cluster with three brokers: executors die under load, nothing is lost.

The oracle: every message sent was acked, and no expiry was acted on twice.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from marq import embedded
from tests.e2e.kafka_process import Crew, eventually
from tests.e2e.load import Load
from tests.e2e.tracker_scene import PATIENCE_S, Scene
from tests.spark_cluster import SparkCluster
from tests.tracker_process import TrackerProcess

pytestmark = [
    pytest.mark.java,
    pytest.mark.kafka,
    pytest.mark.e2e,
    pytest.mark.timeout(900),
    pytest.mark.skipif("CLUSTER" not in os.environ, reason="minutes long: run by make cluster"),
]

KILLS = int(os.environ.get("KILLS", "3"))


def say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", flush=True)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("brokers")
    say("starting three brokers")
    runtime = embedded.start(directory, brokers=3, tracker=False, parent=os.getpid())
    yield runtime.bootstrap_servers
    runtime.stop()


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    say("starting a Spark master and two workers")
    with SparkCluster(tmp_path_factory.mktemp("spark")) as found:
        yield found


def kill_a_worker(crew: Crew, queue: str) -> set[str]:
    """SIGKILL one that works; what it had begun and was not done with."""
    doomed = crew.start(queue, work_s=0.3)
    doomed.wait_until(lambda: len(doomed.ids("acked")) >= 5)
    doomed.kill()
    return doomed.ids("begun") - doomed.ids("done")


def are_acked(crew: Crew, messages: set[str]) -> bool:
    return messages <= crew.ids("acked")


def kill_an_executor(spark: SparkCluster) -> None:
    """SIGKILL one, and wait until another is in its place."""
    before = spark.executors()
    victim: psutil.Process = before[0]
    say(f"killing executor {victim.pid} of {len(before)}")
    victim.kill()
    known = {process.pid for process in before}
    replaced = eventually(
        lambda: any(process.pid not in known for process in spark.executors()), PATIENCE_S
    )
    assert replaced, "no executor came in its place"


def test_executors_that_die_under_load_lose_nothing(
    servers: str, spark: SparkCluster, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    options = ["--master", spark.master, "--conf", "spark.driver.host=127.0.0.1"]
    with (
        TrackerProcess(servers, checkpoint, options=options) as tracker,
        Scene(servers) as scene,
    ):
        crew = scene.crew
        queue = scene.queue(lease="4s", max_attempts=50, partitions=4)
        say("starting the tracker on the cluster")
        tracker.wait_until_ready(PATIENCE_S)
        assert eventually(lambda: len(spark.executors()) == 2)
        crew.start(queue.name, work_s=0.02)

        with Load(queue) as load:
            for number in range(KILLS):
                say(f"killing a worker and an executor, {number + 1} of {KILLS}")
                left = kill_a_worker(crew, queue.name)
                kill_an_executor(spark)
                say(f"waiting for the worker's {len(left)} messages to be acked by another")
                assert eventually(partial(are_acked, crew, left), PATIENCE_S)
        say(f"{len(load.sent)} sent; waiting for the last ones")
        ledger = scene.settled(queue, sent=load.sent)

        copies = sum(number for (_, which), number in ledger.copies.items() if which)
        say(f"all acked; {copies} copies, none of them twice")
        assert ledger.sent == load.sent
        assert copies
        assert not ledger.dead
        assert tracker.running
