"""Processes whose clock is wrong: Debian's libfaketime, fetched where it is not installed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from marq.embedded import jars

_INSTALLED = Path("/usr/lib")
_LIBRARY = "*/faketime/libfaketimeMT.so.1"
# librdkafka reckons by clock_gettime, which libfaketime shifts, until when it waits, and waits by
# cnd_timedwait, which it does not know: waits of a second would take two hours, or no time. Python
# sleeps until a time of the monotonic clock, which is right; libfaketime shifts it all the same.
_SHIM = """
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

typedef struct timespec when;

int clock_nanosleep(clockid_t clock, int flags, const when *until, when *left) {
    return syscall(SYS_clock_nanosleep, clock, flags, until, left) ? errno : 0;
}

int cnd_timedwait(cnd_t *cond, mtx_t *mutex, const struct timespec *until) {
    int error = pthread_cond_timedwait((pthread_cond_t *)cond, (pthread_mutex_t *)mutex, until);
    return error == 0 ? thrd_success : error == ETIMEDOUT ? thrd_timedout : thrd_error;
}
"""

Faketime = Callable[[str], dict[str, str]]
"""The environment of a process whose clock is off by "+2h" or "-2h"."""


@pytest.fixture(scope="session")
def faketime(tmp_path_factory: pytest.TempPathFactory) -> Faketime:
    libraries = f"{_shim(tmp_path_factory.mktemp('shim'))} {_library()}"

    def off_by(shift: str) -> dict[str, str]:
        return {
            "LD_PRELOAD": libraries,
            "FAKETIME": shift,
            # Only the time of day is wrong on machines with a wrong clock.
            "DONT_FAKE_MONOTONIC": "1",
        }

    return off_by


def _shim(folder: Path) -> Path:
    if not shutil.which("cc"):
        pytest.skip("wrong clocks need a C compiler: apt-get install gcc libc6-dev")
    source, library = folder / "shim.c", folder / "shim.so"
    source.write_text(_SHIM)
    _run("cc", "-shared", "-fPIC", "-o", str(library), str(source), folder=folder)
    return library


def _library() -> Path:
    cache = jars.cache_directory() / "libfaketime"
    found = [*_INSTALLED.glob(_LIBRARY), *cache.glob(f"usr/lib/{_LIBRARY}")]
    return found[0] if found else _fetched(cache)


def _fetched(cache: Path) -> Path:
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        pytest.skip("libfaketime is not installed and this is no Debian: install it")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            _run("apt-get", "--quiet", "download", "libfaketime", folder=folder)
            (package,) = folder.glob("*.deb")
            _run("dpkg-deb", "-x", str(package), str(cache), folder=folder)
        except (subprocess.SubprocessError, ValueError) as error:
            pytest.skip(f"libfaketime cannot be had: apt-get install libfaketime ({error})")
    (library,) = cache.glob(f"usr/lib/{_LIBRARY}")
    return library


def _run(*command: str, folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
