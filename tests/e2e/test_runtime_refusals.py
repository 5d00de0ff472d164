"""What `marq up` refuses: one clear sentence, the right exit code, nothing half-written."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from marq.cli import app
from marq.embedded.jvm import jars


@pytest.fixture(params=[[], ["--detach"]], ids=["foreground", "detached"])
def mode(request: pytest.FixtureRequest) -> list[str]:
    return list(request.param)


def marq(*arguments: object, **environ: str) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env=environ)


def sentence(result: Result) -> str:
    """What was said, which must be one line and no traceback."""
    (line,) = result.stderr.strip().splitlines()
    return line


@pytest.fixture
def fetched() -> None:
    """All jars are there: that they are fetched, on a new machine, would be said as well."""
    jars.resolve()
    jars.resolve("spark")


def test_two_brokers_are_a_usage_error(tmp_path: Path) -> None:
    result = marq("up", "--brokers", 2, "--data", tmp_path / "runtime")

    assert (result.exit_code, sentence(result)) == (
        2,
        "marq: an embedded runtime has 1 or 3 brokers, not 2.",
    )
    assert not (tmp_path / "runtime").exists()


def test_a_foreign_directory_is_refused(tmp_path: Path, mode: list[str]) -> None:
    (tmp_path / "thesis.txt").write_text("mine")

    result = marq("up", "--data", tmp_path, *mode)

    assert result.exit_code == 2
    assert "not empty and not a marq runtime" in sentence(result)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


def test_down_and_status_refuse_a_foreign_directory_too(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")

    results = [marq(command, "--data", tmp_path) for command in ("down", "status")]

    assert [result.exit_code for result in results] == [2, 2]


def test_down_without_a_runtime_is_no_failure(tmp_path: Path) -> None:
    result = marq("down", "--data", tmp_path / "runtime")

    assert (result.exit_code, result.stdout) == (0, "nothing was running\n")


@pytest.mark.java
@pytest.mark.usefixtures("fetched")
def test_without_java_nothing_is_written(tmp_path: Path, mode: list[str]) -> None:
    result = marq("up", "--data", tmp_path / "runtime", *mode, PATH="", JAVA_HOME="")

    assert result.exit_code == 1
    assert "needs Java 17 or newer and there is none in PATH: install" in sentence(result)
    assert not (tmp_path / "runtime").exists()


@pytest.mark.java
@pytest.mark.usefixtures("fetched")
def test_java_8_is_too_old(tmp_path: Path, mode: list[str]) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'java version \"1.8.0_402\"' >&2\n")
    program.chmod(0o755)

    result = marq(
        "up", "--data", tmp_path / "runtime", *mode, PATH=str(program.parent), JAVA_HOME=""
    )

    assert result.exit_code == 1
    assert "is Java 8: install a JDK 17" in sentence(result)
    assert not (tmp_path / "runtime").exists()


@pytest.mark.java
@pytest.mark.usefixtures("fetched")
def test_a_taken_port_is_named_with_its_holder(tmp_path: Path, mode: list[str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        result = marq("up", "--data", tmp_path / "runtime", "--port", port, *mode)

    assert result.exit_code == 1
    assert f"port {port} is taken by process {os.getpid()}" in sentence(result)
    assert not [entry for entry in (tmp_path / "runtime").iterdir() if entry.name != "lock"]


@pytest.mark.java
@pytest.mark.usefixtures("fetched")
def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path, mode: list[str]) -> None:
    (tmp_path / "file").write_text("")

    result = marq("up", "--data", tmp_path / "file" / "runtime", *mode)

    assert result.exit_code == 1
    assert "cannot write to" in sentence(result)


@pytest.mark.java
@pytest.mark.usefixtures("fetched")
def test_a_directory_without_the_right_to_write_is_told(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if os.access(closed, os.W_OK):
        pytest.skip("root may write anywhere")

    result = marq("up", "--data", closed / "runtime")

    assert result.exit_code == 1
    assert "cannot write to" in sentence(result)


@pytest.mark.java
@pytest.mark.usefixtures("fetched")
def test_a_full_disk_is_told(tmp_path: Path, mode: list[str]) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small file system needs root on Linux")
    try:
        result = marq("up", "--data", tmp_path / "runtime", *mode)
        left = [entry.name for entry in (tmp_path / "runtime").iterdir()]
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)

    assert result.exit_code == 1
    assert "MB free and 1 broker(s) need 64 MB" in sentence(result)
    assert left in ([], ["lock"])


def test_without_pyspark_the_sentence_names_the_extra(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None\nfrom marq.embedded.jvm import ivy\nivy.find()"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )

    assert "pip install 'marq[spark]'" in done.stderr.splitlines()[-1]
