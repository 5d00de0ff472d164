"""Whose a half message is, and when its producer group is asked about it."""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct

from marq.core.markers.wire import LONGEST_MS, MOST, WireReader, WireWriter
from marq.errors import MalformedMarker

TEXT_BYTES = 1_024
"""The longest id, place or name of a queue: four bytes for each character of the longest id."""
SOONEST_MS = 100
"""Nobody is asked more often: a record with a shorter time is no half message."""


class HalfTerms(Struct, frozen=True, gc=False):
    """The terms of a half message: they travel with it, whatever its group says later."""

    group: str
    owner: str
    """Who sent it, in words."""
    made: int
    """The version that made its queue: in one made again under the name it is nobody's."""
    check_after_ms: int
    """It is asked about so long after its owner's last sign of life."""
    check_every_ms: int
    max_checks: int
    """It is given up after so many requests were answered with "unknown"."""
    give_up_after_ms: int = 0
    """It is given up so long after it was sent; 0: never."""


@lru_cache(maxsize=256)
def encode(half: HalfTerms) -> bytes:
    """The value of the header's tag: the same for all that a process sends for a group."""
    out = WireWriter()
    out.text(half.group)
    out.text(half.owner)
    out.numbers((half.made, half.check_after_ms, half.check_every_ms))
    out.numbers((half.max_checks, half.give_up_after_ms))
    return out.bytes()


@lru_cache(maxsize=256)
def decode(value: bytes) -> HalfTerms:
    """The terms; a newer release may add to their end."""
    data = WireReader(value)
    group, owner = data.text(), data.text()
    if not group or max(len(group.encode()), len(owner.encode())) > TEXT_BYTES:
        raise MalformedMarker("a half message names no group, or one nobody can have")
    made, after_ms, every_ms = data.number(), data.most(LONGEST_MS), data.most(LONGEST_MS)
    if min(after_ms, every_ms) < SOONEST_MS:
        raise MalformedMarker(f"a half message is asked about every {min(after_ms, every_ms)} ms")
    return HalfTerms(group, owner, made, after_ms, every_ms, data.most(MOST), data.most(LONGEST_MS))
