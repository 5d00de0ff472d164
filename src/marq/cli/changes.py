"""Which Python files have changed since the last look."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})
Times = dict[str, int]


class Watched:
    """The Python files below a directory, and some more."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._more: set[str] = set()
        self._seen = self._times()

    def add(self, files: list[str]) -> None:
        """Watch these too, wherever they are."""
        new = {file for file in files if file not in self._seen} - self._more
        self._more |= new
        self._seen |= dict(_times(new))

    def changed(self) -> str | None:
        """A file that was changed, made or deleted since the last look."""
        before, self._seen = self._seen, self._times()
        differing = {file for file, _ in before.items() ^ self._seen.items()}
        return min(differing, default=None)

    def _times(self) -> Times:
        return dict(_times({*_python_files(self._directory), *self._more}))


def _times(files: set[str]) -> Iterator[tuple[str, int]]:
    for file in files:
        try:
            yield file, os.stat(file).st_mtime_ns
        except OSError:
            continue  # deleted meanwhile: it has no time


def _python_files(directory: Path) -> Iterator[str]:
    for root, directories, files in os.walk(directory):
        directories[:] = [name for name in directories if _is_wanted(root, name)]
        yield from (os.path.join(root, name) for name in files if name.endswith(".py"))


def _is_wanted(root: str, name: str) -> bool:
    if name.startswith(".") or name in _SKIPPED:
        return False
    return not os.path.exists(os.path.join(root, name, "pyvenv.cfg"))
