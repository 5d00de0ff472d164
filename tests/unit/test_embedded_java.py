"""Which Java runs the broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from marq.embedded.jvm import java
from marq.errors import RuntimeFailed


def fake_java(folder: Path, printed: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{printed}' >&2\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("printed", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx=1\nopenjdk version "21" 2023-09-19', 21),
        ("no such thing", None),
    ],
)
def test_the_major_version_is_read_from_what_java_prints(printed: str, major: int | None) -> None:
    assert java.major_version(printed) == major


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    at_home = fake_java(tmp_path / "home", 'openjdk version "21.0.1"')
    on_path = fake_java(tmp_path / "path", 'openjdk version "17.0.1"')

    found = java.find({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)})

    assert found == at_home


def test_java_on_path_is_used_without_java_home(tmp_path: Path) -> None:
    on_path = fake_java(tmp_path, 'openjdk version "17.0.1"')

    assert java.find({"PATH": str(on_path.parent)}) == on_path


@pytest.mark.parametrize("environ", [{"PATH": ""}, {"JAVA_HOME": "/nowhere", "PATH": "/usr/bin"}])
def test_without_java_one_sentence_says_what_to_install(environ: dict[str, str]) -> None:
    with pytest.raises(RuntimeFailed, match=r"needs Java 17 or newer and there is none.*install"):
        java.find(environ)


def test_java_8_is_refused_by_its_number(tmp_path: Path) -> None:
    old = fake_java(tmp_path, 'java version "1.8.0_402"')

    with pytest.raises(RuntimeFailed, match=r"needs Java 17 or newer and .* is Java 8: install"):
        java.find({"PATH": str(old.parent)})


def test_a_java_that_does_not_work_is_refused(tmp_path: Path) -> None:
    broken = fake_java(tmp_path, "Segmentation fault")

    with pytest.raises(RuntimeFailed, match="is no working Java"):
        java.find({"PATH": str(broken.parent)})
