"""A queue's end in this process: what a backend on Kafka hands its users."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Protocol

from marq.backend import Handing
from marq.errors import QueueError
from marq.kafka.receiving.inbox import KafkaInbox
from marq.kafka.receiving.pump import Pump
from marq.message import Delivery

_FIRST_S = 1.0
"""How long the first receive waits for messages that lie there already."""


class Pumps(Protocol):
    """Where a queue's pump comes from."""

    connect_timeout_s: float

    def pump(self, queue: str) -> tuple[Pump, KafkaInbox]:
        """The process's one consumer of the queue, started on first use."""
        ...

    def close_pump(self, queue: str) -> None:
        """Give back what was not handed out and leave the group."""
        ...


class QueueEnd:
    """A queue's inbox in this process, joined on first use."""

    def __init__(self, pumps: Pumps, queue: str) -> None:
        self._pumps = pumps
        self._queue = queue
        self._inbox: KafkaInbox | None = None

    def take(self, limit: int, wait_s: float, handing: Handing) -> list[Delivery[Any]]:
        pump, inbox = self._pumps.pump(self._queue)
        self._inbox = inbox
        if not pump.joined and inbox.failure is None:
            self._join(pump, inbox, limit)
        try:
            pump.turn()
            return inbox.take(limit, wait_s, handing, pump)
        except QueueError:
            if inbox.failure is not None:
                self.close()  # told once: whoever takes again starts anew
            raise

    def _join(self, pump: Pump, inbox: KafkaInbox, limit: int) -> None:
        """Wait for partitions, and for what lies in them already."""
        with inbox.wanting(limit):
            if pump.wait_until_joined(self._pumps.connect_timeout_s):
                inbox.wait_for_first(_FIRST_S)

    def forked(self) -> None:
        """What it had is the parent's."""
        self._inbox = None

    def at_hand(self, handing: Handing) -> Iterator[Delivery[Any]]:
        return iter(()) if self._inbox is None else self._inbox.at_hand(handing)

    def suspects(self) -> int:
        return self._inbox.suspects() if self._inbox is not None else 0

    def close(self) -> None:
        self._pumps.close_pump(self._queue)


def leave(pumps: list[Pump], until: float) -> None:
    """Leave the groups, in the time that is left: others need not find out that we are gone."""
    for pump in pumps:
        pump.stop(0)
    for pump in pumps:
        pump.stop(max(0.0, until - time.monotonic()))
