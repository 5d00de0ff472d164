"""What another user of this machine can read of a runtime."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65_534


def can_read(directory: Path) -> list[str]:
    """What a user who is nobody's friend can read in this directory, and in what runtimes have put
    where all put what is temporary; nothing where nobody can become another user but root."""
    if os.geteuid() != 0:
        return []
    temporary = Path(tempfile.gettempdir())
    with _reachable(directory):
        places = [directory, *temporary.glob("marq-*")]
        found = subprocess.run(
            ["find", *map(str, places), "-readable", "-print"],
            user=NOBODY,
            group=NOBODY,
            extra_groups=(),
            capture_output=True,
            text=True,
            check=False,
        )
        # He was there: what he may not look into, he is told of.
        assert f"{directory}" in found.stderr, found
    return found.stdout.splitlines()


@contextmanager
def _reachable(directory: Path) -> Iterator[None]:
    """While inside, everyone may come as far as this directory."""
    modes = {each: each.stat().st_mode for each in directory.parents}
    try:
        for each, mode in modes.items():
            each.chmod(mode | 0o111)
        yield
    finally:
        for each, mode in modes.items():
            each.chmod(mode)
