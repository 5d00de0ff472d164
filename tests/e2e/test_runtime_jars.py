"""The jars' cache: filled by two at once, damaged, offline, without Java, on a full disk."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from marq.embedded.jvm import jars

pytestmark = [pytest.mark.java, pytest.mark.e2e]

RESOLVE = "from marq.embedded.jvm import jars; print(len(jars.resolve()))"
# The JVM itself has no way out: whatever it wants to fetch meets a closed port.
NO_NETWORK = {
    "JAVA_TOOL_OPTIONS": "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=1"
    " -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1"
}
JAR = "kafka-clients-4.3.1.jar"


@pytest.fixture
def ivy_only(tmp_path: Path) -> Path:
    """A cache without jars; Ivy's own cache is full, so that no test downloads anything again."""
    jars.resolve()
    cache = tmp_path / "cache"
    shutil.copytree(jars.cache_directory() / "ivy", cache / "ivy")
    return cache


@pytest.fixture
def filled(ivy_only: Path) -> Path:
    """A whole cache of this test's own."""
    shutil.copytree(jars.cache_directory() / "jars", ivy_only / "jars")
    return ivy_only


def environment(cache: Path, **more: str) -> dict[str, str]:
    return {**os.environ, **NO_NETWORK, "MARQ_CACHE_DIR": str(cache), **more}


def resolving(cache: Path, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RESOLVE],
        env=environment(cache, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def resolve(cache: Path, **more: str) -> tuple[int, str, str]:
    with resolving(cache, **more) as process:
        printed, said = process.communicate(timeout=90)
    return process.returncode, printed.strip(), said


def whole(cache: Path) -> bool:
    wanted = jars.locked("kafka").jars
    return all(jars.sha256(cache / "jars" / jar) == digest for jar, digest in wanted.items())


def leftovers(cache: Path) -> list[Path]:
    return list(cache.glob("fetch-*"))


def damage(jar: Path) -> None:
    """Other bytes, same size."""
    content = bytearray(jar.read_bytes())
    content[len(content) // 2] ^= 0xFF
    jar.write_bytes(content)


def test_two_processes_fill_an_empty_cache_at_once(ivy_only: Path) -> None:
    both = [resolving(ivy_only) for _ in range(2)]

    outcomes = [(*process.communicate(timeout=90), process.returncode) for process in both]

    assert [(printed.strip(), code) for printed, _, code in outcomes] == [("46", 0), ("46", 0)]
    assert sum("fetched in" in said for _, said, _ in outcomes) == 1
    assert whole(ivy_only)
    assert not leftovers(ivy_only)


def test_a_corrupt_a_cut_and_a_missing_jar_are_fetched_again(filled: Path) -> None:
    damage(filled / "jars" / JAR)
    (filled / "jars" / "re2j-1.8.jar").write_bytes(b"half")
    (filled / "jars" / "snakeyaml-2.5.jar").unlink()
    (filled / "fetch-killed").mkdir()

    code, printed, said = resolve(filled)

    assert (code, printed) == (0, "46")
    assert "3 of 46" in said
    assert whole(filled)
    assert not leftovers(filled)


def test_a_whole_cache_needs_neither_network_nor_java(filled: Path) -> None:
    assert resolve(filled, PATH="", JAVA_HOME="/nowhere") == (0, "46", "")


def test_no_network_and_an_empty_cache_say_what_to_do_and_leave_nothing(tmp_path: Path) -> None:
    code, _, said = resolve(tmp_path / "cache")

    assert code == 1
    assert "RuntimeFailed: cannot fetch the kafka jars" in said.splitlines()[-1]
    assert "connect to the network once" in said
    assert not (tmp_path / "cache" / "jars").exists()
    assert not leftovers(tmp_path / "cache")


def test_a_poisoned_cache_of_ivy_is_thrown_away_and_never_used(filled: Path) -> None:
    (poisoned,) = filled.joinpath("ivy").rglob(JAR)
    damage(poisoned)
    damage(filled / "jars" / JAR)

    code, _, said = resolve(filled)  # without a network the real bytes cannot come

    assert code == 1
    assert "cannot fetch the kafka jars" in said
    assert not poisoned.exists()
    assert not leftovers(filled)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system with 16 MB of room."""
    disk = tmp_path / "disk"
    disk.mkdir()
    options = ["-t", "tmpfs", "-o", "size=16m", "tmpfs", str(disk)]
    if subprocess.run(["mount", *options], capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small file system needs root on Linux")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_is_told_before_anything_is_fetched(small_disk: Path) -> None:
    code, _, said = resolve(small_disk / "cache")

    assert code == 1
    assert "cannot keep the jars in" in said.splitlines()[-1]
    assert "MB free, 200 MB needed" in said
    assert not leftovers(small_disk / "cache")
