"""What the claims and handouts of one markers partition share."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Protocol

from marq.kafka.client.answers import WaitingRoom
from marq.kafka.client.clock import BrokerClock


class Writer(Protocol):
    """Who writes down what is to be written."""

    clock: BrokerClock
    waiting: WaitingRoom

    def wake(self) -> None:
        """There is something to write."""
        ...

    def beat_within(self, lease_ms: int) -> None:
        """A lease as short as that is kept alive from now on."""
        ...


class Desk:
    """A lock, and lists of what is to be written or kept alive.

    The lock guards the counts of claims and handouts, what is held, and which of them are kept
    alive. What happens once a message, beginning and ending one, takes no lock: see `Handout.end`.
    Nor does `dirty`: with the GIL, appending to a deque and taking from it are whole.
    """

    def __init__(self, partition: int, writer: Writer) -> None:
        self.partition = partition
        """Of the markers log."""
        self.waiting = writer.waiting
        self.clock = writer.clock
        self.wake = writer.wake
        self.beat_within = writer.beat_within
        self.lock = threading.Lock()
        self.dirty: deque[Any] = deque()
        """Handouts of which something is to be written."""
        self.copied: deque[Any] = deque()
        """Messages that were given back and end once their copies are in the log."""
        self.claims: dict[int, Any] = {}
        """Committed claims with something open, by sequence."""
        self.kept: set[Any] = set()
        """Handouts that are kept alive."""
