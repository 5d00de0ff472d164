"""Where the query's checkpoint lies. One that cannot be used is given up for a new one: the log
says the same, from its start."""

from __future__ import annotations

import shutil
from pathlib import Path

_STALE = (
    "StaleSnapshot",
    "data may have been lost",
    "DATA_LOSS",
    "KAFKA_DATA_LOSS",
    "OffsetOutOfRange",
    "CANNOT_LOAD_STATE_STORE",
    "CANNOT_LOAD_CHECKPOINT",
    "STATE_STORE",
    "STDS_",
    "STREAMING_STATEFUL",
    "checkpoint",
    "Checkpoint",
    "offset log",
    "MALFORMED_",
    "FileNotFoundException",
    "Partition offset was changed",
    "UnsupportedLogVersion",
    "MalformedMarker",
)


class Checkpoints:
    """Numbered checkpoints under one directory; the newest is in use."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def current(self) -> Path:
        """The one in use; made when Spark first writes to it."""
        return self._directory / f"{self._number():04}"

    def give_up(self) -> None:
        """Start anew: the next query begins with the log's first record."""
        old = self.current
        (self._directory / f"{self._number() + 1:04}").mkdir()
        # The new one is there before the old one goes: a crash in between leaves both.
        shutil.rmtree(old, ignore_errors=True)

    def _number(self) -> int:
        numbers = [int(path.name) for path in self._directory.iterdir() if path.name.isdigit()]
        return max(numbers, default=1)


def blames_checkpoint(error: str) -> bool:
    """Whether the failure is one that a new checkpoint mends."""
    return any(sign in error for sign in _STALE)
