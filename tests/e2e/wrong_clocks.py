"""Processes whose clock is wrong."""

from __future__ import annotations

import contextlib
import platform
import shutil
import subprocess
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

_SOURCE = Path(__file__).with_name("wrong_clock.c")


class WrongClock:
    """A library that makes the clock of whatever process is started with it wrong."""

    def __init__(self, folder: Path) -> None:
        self._library = folder / "wrong_clock.so"
        command = ["cc", "-O1", "-shared", "-fPIC", "-o", str(self._library), str(_SOURCE), "-ldl"]
        subprocess.run(command, check=True, timeout=60)

    def off_by(self, wrong: timedelta) -> dict[str, str]:
        """The environment of a process with that clock, and of all that it starts."""
        seconds = str(int(wrong.total_seconds()))
        return {"LD_PRELOAD": str(self._library), "CLOCK_OFF_BY_S": seconds}

    def believers(self, family: Iterable[psutil.Process]) -> dict[str, bool]:
        """Whether the processes that run these programs all have it loaded."""
        found: dict[str, bool] = {}
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):  # or a zombie
                loaded = {each.path for each in process.memory_maps()}
                program = Path(process.exe()).name
                found[program] = found.get(program, True) and str(self._library) in loaded
        return found


@pytest.fixture(scope="session")
def wrong_clock(tmp_path_factory: pytest.TempPathFactory) -> WrongClock:
    if platform.libc_ver()[0] != "glibc" or not shutil.which("cc"):
        pytest.skip("wrong clocks need glibc and a C compiler: apt-get install gcc libc6-dev")
    return WrongClock(tmp_path_factory.mktemp("wrong_clock"))
