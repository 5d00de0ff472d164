"""One call of a handler, and what comes of its messages."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Callable, Iterator
from operator import methodcaller
from typing import Any

from marq.core.markers.reason import told
from marq.errors import PayloadError, QueueError
from marq.message import Delivery
from marq.work.handler import Handler

log = logging.getLogger("marq.worker")

Deliveries = list[Delivery[Any]]

ack = methodcaller("ack")
give_back = methodcaller("give_back")


class Job:
    """One call of the handler."""

    __slots__ = ("_given_up", "cancel", "deliveries", "started_ms")

    def __init__(self, deliveries: Deliveries, started_ms: int) -> None:
        self.deliveries = deliveries
        self.started_ms = started_ms
        self._given_up: Deliveries | None = None
        self.cancel: Callable[[], object] | None = None
        """Interrupts an async handler; a thread cannot be interrupted."""

    def run(self, handler: Handler, queue: str) -> None:
        """Call the handler: what it returns from is acked, what it fails with is retried."""
        try:
            wanted, arguments = self._decoded(handler)
            if wanted:
                refuse_awaitable(handler.function(*arguments))
                settle(wanted, ack)
        except BaseException as error:
            self.failed(queue, error)

    def run_each(self, handler: Handler, queue: str, more: Iterator[Delivery[Any]]) -> None:
        """Call the handler with each of these, one by one.

        All in one place, for this runs once a message: each call of a function costs as much as a
        handler that does nothing.
        """
        function, (first, *others) = handler.function, handler.getters()
        for delivery in more:
            self.deliveries = [delivery]
            try:
                arguments = [first(delivery)]
                for other in others:
                    arguments.append(other(delivery))
            except BaseException:  # more slowly, with all that may come of it
                self.run(handler, queue)
                continue
            try:
                result = function(*arguments)
                if result is not None:
                    refuse_awaitable(result)
            except BaseException as error:
                self.failed(queue, error)
                continue
            if not delivery.settled:
                try:
                    delivery.ack()
                except Exception as error:  # see `settle`
                    _let_go(delivery, error)

    async def run_async(self, handler: Handler, queue: str) -> None:
        try:
            wanted, arguments = self._decoded(handler)
            if wanted:
                await handler.function(*arguments)
                settle(wanted, ack)
        except BaseException as error:
            self.failed(queue, error)

    def _decoded(self, handler: Handler) -> tuple[Deliveries, list[Any]]:
        """What the handler can be called with; the rest is buried, never a crash loop."""
        try:
            return self.deliveries, handler.arguments(self.deliveries)
        except PayloadError:
            wanted = [delivery for delivery in self.deliveries if _decodes(delivery, handler)]
            return wanted, handler.arguments(wanted) if wanted else []

    def failed(self, queue: str, error: BaseException) -> None:
        reason = told(error)
        settle(self.deliveries, lambda delivery: delivery.retry(None, reason))
        # Afterwards: it runs handlers and filters of the user's.
        log.warning("handler failed", extra={"queue": queue}, exc_info=error)

    def give_up(self, limit_ms: int, reason: str) -> None:
        """If it has run since that time or longer it has lost its messages; what it still does is
        ignored.

        Once: a lease that is lost already is not more so a moment later. Looked at in this order,
        for a hand goes on meanwhile: it sets the time first.
        """
        deliveries = self.deliveries
        if self.started_ms > limit_ms or deliveries is self._given_up:
            return
        if any(not delivery.settled for delivery in deliveries):
            self._given_up = deliveries
            settle(deliveries, lambda delivery: delivery.retry(None, reason))
            self.interrupt()

    def interrupt(self) -> None:
        if self.cancel is not None:
            self.cancel()


def settle(deliveries: Deliveries, verdict: Callable[[Delivery[Any]], object]) -> None:
    """Settle what the handler left unsettled; what is lost already comes back by itself."""
    for delivery in deliveries:
        if not delivery.settled:
            try:
                verdict(delivery)
            except Exception as error:  # one message ends no worker: nobody else would come of it
                _let_go(delivery, error)


def _let_go(delivery: Delivery[Any], error: Exception) -> None:
    """It cannot be settled: let nobody renew its lease, so that it comes back."""
    log.warning("not settled", extra={"delivery": repr(delivery)}, exc_info=error)
    if not delivery.settled:
        with contextlib.suppress(QueueError):  # lost already
            delivery.let_go()


def _decodes(delivery: Delivery[Any], handler: Handler) -> bool:
    try:
        handler.arguments([delivery])
    except PayloadError as error:
        reason = str(error)
        settle([delivery], lambda delivery: delivery.reject(reason))
        return False
    return True


def refuse_awaitable(result: object) -> None:
    """Nothing of it has run yet: an ack now would lose the message."""
    if result is None:
        return
    if inspect.iscoroutine(result):
        result.close()
    if inspect.isawaitable(result):
        raise TypeError("the handler returned an awaitable: make it an async def itself")
