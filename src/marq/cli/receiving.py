"""What `marq receive` does: take, show, then ack; what was not shown goes back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import typer

import marq
from marq.core.duration import Duration, milliseconds
from marq.errors import ConfigError, DeliveryError, NotConnected
from marq.stopping import Stopping
from marq.work.job import Deliveries

BATCH = 100
_GIVE_BACK_S = 30.0
_LOOK_S = 0.5
"""How long one receive waits at most: the time it takes to hear that one should stop."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wanted:
    """How much to receive, and what becomes of it."""

    limit: int | None
    """None: until told to stop."""
    wait_s: float
    """How long to wait for the next message."""
    lease: Duration | None
    ack: bool
    follow: bool

    @staticmethod
    def of(
        limit: int | None, wait: Duration, lease: Duration | None, ack: bool, follow: bool
    ) -> Wanted:
        """What these options mean together."""
        if follow and not ack:
            raise ConfigError(
                "--follow --no-ack would show the same messages for ever: use peek, or --max"
            )
        limit = 1 if limit is None and not follow else limit
        return Wanted(limit, milliseconds(wait, "wait") / 1_000, lease, ack, follow)


class Receiving:
    """One run of the command."""

    def __init__(
        self,
        queue: marq.Queue[Any],
        wanted: Wanted,
        show: Callable[[Deliveries], None],
        stop: threading.Event | Stopping,
    ) -> None:
        self.count = 0
        self.late = 0
        """Messages whose ack came too late: they may be delivered again."""
        self._queue = queue
        self._wanted = wanted
        self._show = show
        self._stop = stop
        self._kept: Deliveries = []

    def run(self) -> None:
        """Receive until there is enough, nothing comes, or someone says stop."""
        try:
            while batch := self._next():
                self._show_then_settle(batch)
        finally:
            _give_back(self._kept)

    def _next(self) -> Deliveries:
        """The next messages; none: it is over."""
        until = time.monotonic() + self._wanted.wait_s
        left = self._left()
        while left and not self._stop.is_set():
            wait_s = max(0.0, min(_LOOK_S, until - time.monotonic()))
            wait_s = _LOOK_S if self._wanted.follow else wait_s
            if batch := self._queue.receive(left, wait_s, self._wanted.lease):
                return batch
            if not self._wanted.follow and time.monotonic() >= until:
                break
        return []

    def _left(self) -> int:
        limit = self._wanted.limit
        return BATCH if limit is None else min(BATCH, limit - self.count)

    def _show_then_settle(self, batch: Deliveries) -> None:
        """Ack only what was written out: a reader that went away must not cost a message."""
        try:
            self._show(batch)
        except BaseException:
            _give_back(batch)
            raise
        self.count += len(batch)
        if self._wanted.ack:
            self.late += _late_acks(batch)
        else:
            self._kept += batch


def _late_acks(batch: Deliveries) -> int:
    """Ack them all and wait for the log; how many were too late."""
    receipts = [receipt for delivery in batch for receipt in _tried(delivery.ack)]
    acked = [None for receipt in receipts for _ in _tried(receipt.result)]
    return len(batch) - len(acked)


def _give_back(batch: Deliveries) -> None:
    """Whoever comes next has them at once, and no attempt is counted."""
    unsettled = [delivery for delivery in batch if not delivery.settled]
    receipts = [receipt for delivery in unsettled for receipt in _tried(delivery.give_back)]
    try:
        for receipt in receipts:
            _tried(partial(receipt.result, _GIVE_BACK_S))
    except TimeoutError:
        raise NotConnected(
            "not given back, for no broker takes the copies: they come back when their leases end"
        ) from None


def _tried(call: Callable[[], T]) -> list[T]:
    """The result in a list; empty if the lease was over, which is said."""
    try:
        return [call()]
    except DeliveryError as error:
        typer.echo(f"marq: {error}", err=True)
        return []
