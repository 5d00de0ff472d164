"""When a record was appended to the log."""

from __future__ import annotations

from typing import NamedTuple


class AppendTime(NamedTuple):
    """When a record was appended: not before the one time, not after the other. Mostly they are
    equal; of a record that had to be sent again nobody knows which one was appended first.

    A record is in time if the latest is, and a lease counts from the earliest.
    """

    earliest_ms: int
    latest_ms: int

    @classmethod
    def at(cls, ms: int) -> AppendTime:
        return cls(ms, ms)
