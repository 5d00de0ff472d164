"""When the log took a record."""

from __future__ import annotations

from typing import NamedTuple


class Taken(NamedTuple):
    """When the log took a record: not before the one, not after the other. Mostly they are equal;
    of a record that had to be sent again nobody knows which one was taken first.

    What was taken is in time if the latest is, and a lease counts from the earliest.
    """

    earliest_ms: int
    latest_ms: int

    @classmethod
    def at(cls, ms: int) -> Taken:
        return cls(ms, ms)
