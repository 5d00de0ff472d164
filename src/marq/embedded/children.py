"""Programs that run as children of the supervisor and never outlive it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_TETHER = Path(__file__).with_name("tether.py")


def spawn(
    command: Sequence[str],
    environment: Mapping[str, str],
    output: IO[bytes] | int,
    cwd: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program tied to this process.

    Call it from the main thread: the kernel ends the child with the *thread* that started it.
    """
    return subprocess.Popen(
        [sys.executable, "-I", str(_TETHER), str(os.getpid()), *command],
        env=environment,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        # Ctrl-C is for the supervisor alone, which then ends its children in order.
        start_new_session=True,
    )


def wait(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a child, when it has ended and its own children with it."""
    code = process.wait()
    # A child leads a group of its own: what is left in it, a JVM say, has nobody to work for.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    return code


def how_it_ended(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"


def tail(path: Path, count: int) -> list[str]:
    """The last lines of a file; none of one that is not there."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 16_384))
        return file.read().decode("utf-8", "replace").splitlines()[-count:]
    return []
