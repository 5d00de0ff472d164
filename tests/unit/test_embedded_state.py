"""Stale state: what it says is checked against the processes that are really there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from marq import embedded
from marq.embedded import broker, children, files, seat, state
from marq.embedded.process import ProcessId
from marq.embedded.state import BrokerState, RuntimeState, TrackerState


@pytest.fixture
def home(tmp_path: Path) -> files.RuntimeHome:
    return files.RuntimeHome(tmp_path)


@dataclass(frozen=True)
class Sleeper:
    """A real process that does nothing until it is ended."""

    process: subprocess.Popen[bytes]

    @property
    def identity(self) -> ProcessId:
        return ProcessId.of(self.process.pid)


@pytest.fixture
def sleeper() -> Iterator[Sleeper]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield Sleeper(process)
        process.kill()


def someone_else(process: ProcessId) -> ProcessId:
    """The same pid, of a process that started at another time."""
    return msgspec.structs.replace(process, started=process.started - 60)


def before_the_reboot(process: ProcessId) -> ProcessId:
    return msgspec.structs.replace(process, boot="another boot")


def write_state(home: files.RuntimeHome, supervisor: ProcessId, *brokers: ProcessId) -> None:
    states = tuple(BrokerState(n, 1, process) for n, process in enumerate(brokers, 1))
    files.write(home.state, RuntimeState(supervisor, "running", "127.0.0.1:1", states))


def test_a_process_is_itself_and_nobody_else() -> None:
    me = ProcessId.mine()

    assert me.alive()
    assert not someone_else(me).alive()
    assert not before_the_reboot(me).alive()


def test_a_process_that_ended_is_not_alive_even_while_nobody_asked_for_its_exit_code(
    sleeper: Sleeper,
) -> None:
    identity = sleeper.identity
    identity.end(patience=5)  # not waited for by its parent: a zombie stays

    assert not identity.alive()


@pytest.mark.parametrize("gone", [someone_else, before_the_reboot])
def test_a_state_whose_pid_is_someone_else_s_by_now_is_stale(
    home: files.RuntimeHome, gone: Callable[[ProcessId], ProcessId]
) -> None:
    write_state(home, gone(ProcessId.mine()))

    assert state.of_living(home) is None
    assert embedded.status(home.path).status == "stale"


def test_stopping_a_stale_runtime_spares_the_process_that_has_its_pid(
    home: files.RuntimeHome, sleeper: Sleeper
) -> None:
    identity = sleeper.identity
    write_state(home, someone_else(identity), someone_else(identity))

    assert embedded.stop(home.path) is False

    assert identity.alive()
    assert not home.state.exists()


def test_brokers_that_outlived_their_supervisor_are_ended(
    home: files.RuntimeHome, sleeper: Sleeper
) -> None:
    identity = sleeper.identity
    write_state(home, someone_else(ProcessId.mine()), identity)

    state.clear_stale(home)

    assert not identity.alive()
    assert not home.state.exists()


def test_an_empty_directory_is_a_stopped_runtime(home: files.RuntimeHome) -> None:
    found = embedded.status(home.path)

    assert (found.status, found.brokers, found.supervisor_pid) == ("stopped", (), None)
    assert '"status":"stopped"' in found.to_json()


def test_restarts_wait_longer_each_time_up_to_a_limit() -> None:
    assert [seat.backoff(ends) for ends in (1, 2, 3, 9, 9_999)] == [0.5, 1.0, 2.0, 10.0, 10.0]


def test_the_last_lines_are_those_of_the_log_and_of_the_jvm(home: files.RuntimeHome) -> None:
    home.logs.mkdir()
    home.broker_log(1).write_text("".join(f"line {number}\n" for number in range(5_000)))
    home.broker_output(1).write_text("Out of memory\n")

    lines = broker.last_lines(home, 1, count=2)

    assert lines.splitlines() == ["line 4998", "line 4999", "Out of memory"]


@pytest.mark.parametrize(
    ("code", "words"), [(1, "exit code 1"), (-9, "SIGKILL"), (-199, "signal 199")]
)
def test_an_exit_code_is_told_in_words(code: int, words: str) -> None:
    assert words in children.how_it_ended(code)


def test_a_tracker_that_gives_no_sign_of_life_keeps_no_time(
    home: files.RuntimeHome, sleeper: Sleeper
) -> None:
    keeps_time = TrackerState(True, sleeper.identity, keeps_time=True)
    home.tracker.mkdir()

    home.tracker_alive.touch()
    found = state._tracker(home, keeps_time)
    assert (found.alive, found.keeps_time, found.note) == (True, True, "")

    os.utime(home.tracker_alive, (1, 1))
    found = state._tracker(home, keeps_time)
    assert (found.alive, found.keeps_time, found.note) == (True, False, state.SILENT)
