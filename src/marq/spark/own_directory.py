"""A directory of this process alone, that goes with it: by itself, or by the next one's start."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

_LOCK = ".marq-own-directory"
_MADE_S = 60.0
"""By then one that is being made has its lock."""


class OwnDirectory:
    """A new directory with a name of its own, readable by nobody else.

    Spark leaves directories and sockets in the temporary directory, more with each start, where it
    is killed. Here they are all in one place, and a lock says whether its process still runs.
    """

    def __init__(self, parent: Path, prefix: str) -> None:
        parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(parent, prefix)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        self._lock = _opened(self.path / _LOCK)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def remove(self) -> None:
        """Remove it and all in it; again is harmless."""
        shutil.rmtree(self.path, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.close(self._lock)


def _opened(path: Path) -> int:
    # Not for what this process starts: the lock would live as long as that.
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _remove_abandoned(parent: Path, prefix: str) -> None:
    for path in parent.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            about = path.lstat()
            is_ours = about.st_uid == os.getuid() and path.is_dir() and not path.is_symlink()
            if is_ours and time.time() > about.st_mtime + _MADE_S and _is_abandoned(path):
                shutil.rmtree(path, ignore_errors=True)


def _is_abandoned(path: Path) -> bool:
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC)  # without one it is somebody else's
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True
