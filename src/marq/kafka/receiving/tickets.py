"""Messages that wait in an inbox, and the terms on which they are handed out."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from marq.core.catalog.definitions import QueueDefinition
from marq.core.markers import bits
from marq.errors import NotConnected, QueueError
from marq.kafka.leasing.live import LiveClaim
from marq.receipt import Receipt

GIVE_BACK_S = 30.0
"""How long giving back waits for the log to take a copy."""

Indexes = range | list[int]


class TicketChunk:
    """Plain messages of one claim, from `next` on."""

    __slots__ = ("indexes", "live", "messages", "next")

    def __init__(self, live: LiveClaim, indexes: Indexes, messages: list[Any]) -> None:
        self.live = live
        self.indexes = indexes
        self.messages = messages
        """All of the claim."""
        self.next = 0

    def take(self, limit: int) -> Indexes:
        """The indexes of the next messages."""
        found = self.indexes[self.next : self.next + limit]
        self.next += len(found)
        return found

    @property
    def is_empty(self) -> bool:
        return self.next >= len(self.indexes)

    def at(self, indexes: Indexes) -> list[Any]:
        """The messages at these indexes."""
        if isinstance(indexes, range):
            return self.messages[indexes.start : indexes.stop]
        return [self.messages[i] for i in indexes]


class Ticket(NamedTuple):
    """A message that is not plain: delayed, or delivered before. Sorts by due time."""

    due_ms: int
    arrival: int
    live: LiveClaim
    number: int
    """Its index in the claim."""
    message: Any
    attempt: int = 1
    suspect: bool = False
    copied: bool = False
    """Whether its record is a copy: it was handed out before, perhaps uncounted."""
    begin_by_ms: int | None = None


class Terms(NamedTuple):
    """How this hand-out goes."""

    definition: QueueDefinition
    lease_ms: int
    kept_alive: bool
    wanted: Any
    now_ms: int


def wait_for(copy: Receipt[Any] | QueueError, until: float) -> None:
    """Wait until a copy is in the log; raises why it was not even sent."""
    if isinstance(copy, QueueError):
        raise copy
    try:
        copy.result(max(0.0, until - time.monotonic()))
    except TimeoutError:
        raise NotConnected(
            "not given back, for no broker takes the copy: it comes back when its lease is over"
        ) from None


def mask_of(indexes: Indexes) -> int:
    if isinstance(indexes, range):
        return bits.span(indexes.start, len(indexes))
    return bits.of(indexes)
