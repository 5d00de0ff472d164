"""The tracker beside the brokers of `marq up`: started, shown, killed, replaced, left away."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from marq import embedded
from marq.embedded import state, supervisor
from tests.e2e import second_user
from tests.e2e.runtime_command import Command, Marq, directory, eventually, marq
from tests.spark_ports import refuse_open_doors

__all__ = ["directory", "marq"]
pytestmark = [pytest.mark.java, pytest.mark.e2e]

SPARK_S = 300.0
"""To start Spark on a machine where much else goes on."""


def tracker(directory: Path) -> embedded.TrackerStatus:
    return embedded.status(directory).tracker


def family(pid: int | None) -> list[psutil.Process]:
    """A process, and what it has started."""
    assert pid is not None
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def has_jvm(pid: int | None) -> bool:
    return pid is not None and "java" in {process.name() for process in family(pid)}


def gone(processes: list[psutil.Process]) -> bool:
    return not any(_runs(process) for process in processes)


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def shown(marq: Marq, directory: Path) -> str:
    return marq("status", "--data", directory, COLUMNS="400").said()


@pytest.mark.timeout(3 * SPARK_S)
def test_the_tracker_is_started_again_when_killed_but_not_when_another_took_over(
    marq: Marq, directory: Path
) -> None:
    up = marq("up", "--data", directory)
    servers = up.wait_for("ready at").split()[-1]
    assert not tracker(directory).keeps_time  # the brokers take messages without it
    up.wait_for("the tracker keeps time", within=SPARK_S)
    first = tracker(directory)
    assert (first.alive, first.keeps_time, first.restarts, first.note) == (True, True, 0, "")
    assert "the tracker keeps time" in Path(first.log).read_text()
    assert "the tracker keeps time" in shown(marq, directory)
    processes = family(first.pid)
    assert has_jvm(first.pid)
    refuse_open_doors(processes)
    assert second_user.can_read(directory) == []
    status_tells_that_no_time_is_kept_while_spark_stands_still(directory, processes)

    os.kill(processes[0].pid, signal.SIGKILL)

    up.wait_for(f"the tracker (pid {first.pid}) was ended by SIGKILL")
    assert eventually(lambda: gone(processes), within=30)
    assert eventually(lambda: tracker(directory).restarts == 1, within=30)
    assert embedded.status(directory).status == "running"
    assert eventually(lambda: takeovers(directory) == 2, within=SPARK_S)
    another_takes_over(up, marq, directory, servers)


def status_tells_that_no_time_is_kept_while_spark_stands_still(
    directory: Path, processes: list[psutil.Process]
) -> None:
    jvms = [process for process in processes if process.name() == "java"]
    for jvm in jvms:
        jvm.suspend()
    assert eventually(lambda: not tracker(directory).keeps_time, within=60)
    assert (tracker(directory).alive, tracker(directory).note) == (True, supervisor.STANDS_STILL)
    for jvm in jvms:
        jvm.resume()
    assert eventually(lambda: tracker(directory).keeps_time, within=60)
    processes[0].suspend()  # which says nothing any more
    assert eventually(lambda: not tracker(directory).keeps_time, within=60)
    assert (tracker(directory).alive, tracker(directory).note) == (True, state.SILENT)
    processes[0].resume()
    assert eventually(lambda: tracker(directory).keeps_time, within=60)


def takeovers(directory: Path) -> int:
    return Path(tracker(directory).log).read_text().count("tracker takes over")


def another_takes_over(up: Command, marq: Marq, directory: Path, servers: str) -> None:
    """The second half of the same test, for which Spark need not be started once more."""
    second = family(tracker(directory).pid)
    other = marq("tracker", "--url", f"kafka://{servers}", "--checkpoint", directory / "other")
    other.wait_for("tracker takes over", within=SPARK_S)
    other.process.kill()  # it has said that it is the one: that is enough

    up.wait_for("another tracker has taken over, so it is not started again", within=SPARK_S)

    assert eventually(lambda: gone(second), within=30)
    assert "another tracker has taken over" in shown(marq, directory)
    found = json.loads(marq("status", "--json", "--data", directory).said())
    assert (found["status"], found["tracker"]["alive"]) == ("running", False)
    assert "exit code 3" in found["tracker"]["note"]
    children = family(embedded.status(directory).supervisor_pid)
    assert up.end() == 0
    assert gone(children)


@pytest.mark.timeout(2 * SPARK_S)
def test_down_ends_the_tracker_and_its_jvm_even_while_it_is_starting(
    marq: Marq, directory: Path
) -> None:
    embedded.start(directory)
    assert eventually(lambda: has_jvm(tracker(directory).pid), within=SPARK_S)
    children = family(embedded.status(directory).supervisor_pid)

    marq("down", "--data", directory).wait_for("stopped")

    assert gone(children)
    assert embedded.status(directory).status == "stopped"


def test_without_a_tracker_the_runtime_says_so(marq: Marq, directory: Path) -> None:
    up = marq("up", "--no-tracker", "--data", directory)
    up.wait_for("ready at")

    joined = embedded.start(directory)  # with one, if it were not there already

    assert joined.joined
    found = tracker(directory)
    assert (found.wanted, found.alive, found.pid) == (False, False, None)
    assert "no tracker runs" in shown(marq, directory)
    assert "the runtime was started without one" in shown(marq, directory)
    children = family(embedded.status(directory).supervisor_pid)
    assert [each.name() for each in children[1:]] == ["java"]
    assert up.end() == 0


@pytest.fixture
def broken_spark(tmp_path: Path) -> Iterator[str]:
    """A place whose pyspark cannot be imported."""
    package = tmp_path / "modules" / "pyspark" / "__init__.py"
    package.parent.mkdir(parents=True)
    package.write_text("raise ImportError('this Spark is broken')")
    yield str(package.parent.parent)


def test_a_tracker_that_cannot_start_is_tried_again_and_the_brokers_go_on(
    marq: Marq, directory: Path, broken_spark: str
) -> None:
    up = marq("up", "--data", directory, PYTHONPATH=broken_spark)
    up.wait_for("ready at")

    up.wait_for("the tracker (pid ", within=60)
    assert eventually(lambda: tracker(directory).restarts == 4, within=120)

    found = embedded.status(directory)
    assert (found.status, found.tracker.wanted) == ("running", True)
    assert "the tracker needs Spark" in found.tracker.note
    assert "this Spark is broken" in shown(marq, directory)
    assert up.end() == 0


def test_without_pyspark_the_brokers_come_up_and_status_says_what_to_install(
    marq: Marq, directory: Path, tmp_path: Path
) -> None:
    hidden = tmp_path / "modules" / "sitecustomize.py"
    hidden.parent.mkdir()
    hidden.write_text("import sys; sys.modules['pyspark'] = None")

    up = marq("up", "--data", directory, PYTHONPATH=str(hidden.parent))
    up.wait_for("ready at")

    assert "pip install 'marq[spark]'" in up.wait_for("no tracker")
    assert "pip install 'marq[spark]'" in shown(marq, directory)
    assert not tracker(directory).alive
    assert up.end() == 0
