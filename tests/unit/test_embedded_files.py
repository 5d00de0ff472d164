"""A runtime's directory is its owner's alone, and nobody else's is believed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from marq import embedded
from marq.embedded import files, foreground, layout, state
from marq.embedded.layout import WantedLayout
from marq.embedded.process import ProcessId
from marq.embedded.state import RuntimeState
from marq.errors import ConfigError


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_new_directory_is_closed_to_others_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        files.make_private(tmp_path / "some" / "where")
    finally:
        os.umask(before)

    assert mode(tmp_path / "some" / "where") == 0o700


def test_one_that_was_open_is_closed_and_keeps_what_is_in_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "file").write_text("x")

    files.make_private(tmp_path)

    assert mode(tmp_path) == 0o700
    assert (tmp_path / "file").read_text() == "x"


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> files.RuntimeHome:
    """A directory with a living runtime in it, seen by another user than its owner."""
    home = files.RuntimeHome(tmp_path)
    files.write(home.state, RuntimeState(ProcessId.mine(), "running", "127.0.0.1:1", ()))
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    return home


@pytest.mark.parametrize(
    "use",
    [
        lambda home: embedded.status(home.path),
        lambda home: embedded.start(home.path),
        lambda home: embedded.stop(home.path),
        lambda home: foreground.supervise(home, WantedLayout(None, None), lambda *_: None),
        lambda home: files.make_private(home.path),
        state.read,
        layout.read,
    ],
)
def test_someone_else_s_directory_is_refused_with_what_to_do(
    foreign: files.RuntimeHome, use: Callable[[files.RuntimeHome], object]
) -> None:
    with pytest.raises(ConfigError, match=r"belongs to .+, and this is user 4711: .*--data"):
        use(foreign)


def test_a_state_that_someone_else_put_into_one_s_own_directory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = files.RuntimeHome(tmp_path)
    files.write(home.state, RuntimeState(ProcessId.mine(), "running", "127.0.0.1:1", ()))
    real = os.fstat

    def of_another(number: int) -> os.stat_result:
        found = list(real(number))
        found[4] += 1  # the owner
        return os.stat_result(found)

    monkeypatch.setattr(os, "fstat", of_another)

    with pytest.raises(ConfigError, match=r"state\.json belongs to"):
        embedded.status(tmp_path)
