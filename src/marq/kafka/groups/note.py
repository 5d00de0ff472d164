"""The note beside a committed offset: a message that kills its owners must die alone.

Every owner that takes a partition counts one up, an ack starts from nothing. Once two owners have
taken it and acked nothing, its first message is suspect: each delivery of it is noted before it
begins. So being held by an owner that died of another partition's message is no attempt.
"""

from __future__ import annotations

import re
from typing import NamedTuple

SUSPECT = 2
_TEXT = re.compile(r"taken:([0-9]{1,9}) begun:([0-9]{1,9})")


class Note(NamedTuple):
    """What became of a partition since its last ack."""

    taken: int = 0
    """Owners that took it."""
    begun: int = 0
    """Deliveries of its first message that were noted."""

    @property
    def text(self) -> str:
        return f"taken:{self.taken} begun:{self.begun}"

    @property
    def is_suspect(self) -> bool:
        return self.taken > SUSPECT


def parse(metadata: str | None) -> Note:
    """The note this text is; of any other text, a new one."""
    found = _TEXT.fullmatch(metadata or "")
    return Note(int(found[1]), int(found[2])) if found else Note()
