"""Where the query's checkpoint lies. One that cannot be used is given up for a new one: the log
says the same, from its start."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

_PLAN = "=== Streaming Query ==="
"""What follows in an error is the plan, with the checkpoint's place in it, whatever went wrong."""
# By what Spark and marq call their errors: no other word of an error says what it is.
_CONDITION = re.compile(
    r"\[(?:CANNOT_LOAD_STATE_STORE|CANNOT_LOAD_CHECKPOINT|STATE_STORE|STDS_|STREAMING_STATEFUL"
    r"|KAFKA_DATA_LOSS|MALFORMED_LOG_FILE|MALFORMED_CHECKPOINT|FAILED_RENAME_TEMP_FILE)[A-Z0-9_.]*\]"
)
_NAME = re.compile(
    r"(?:^|\s)(?:[\w$]+\.)*(?:StaleSnapshot|OffsetOutOfRangeException|FileNotFoundException)(?=:|\s|$)"
)
# The connector's own errors, that have no name.
_SENTENCES = ("data may have been lost", "Partition offset was changed")


class Checkpoints:
    """Numbered checkpoints under one directory; the newest is in use."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def current(self) -> Path:
        """The one in use; made when Spark first writes to it."""
        return self._directory / f"{self._number():04}"

    def use_for(self, log: str) -> None:
        """Give up one that was made of another log: Spark notices only if that was longer, and
        what the new one says up to there would never be read."""
        noted = self._directory / "log"
        known = noted.read_text() if noted.exists() else log  # an earlier release notes nothing
        if known != log:
            self.give_up()
        unfinished = noted.with_suffix(".new")
        unfinished.write_text(log)
        unfinished.replace(noted)

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
    """Whether the failure is one that a new checkpoint mends.

    Not every error of one that is damaged is known here; the second failure in a row gives it up,
    whatever it is.
    """
    said = error.partition(_PLAN)[0]
    named = _CONDITION.search(said) or _NAME.search(said)
    return named is not None or any(sentence in said for sentence in _SENTENCES)
