"""What a handler sends together with its ack."""

from __future__ import annotations

from typing import Any

from marq.core import names
from marq.core.messages import sending
from marq.core.messages.stored import ANY_PARTITION, Outgoing


class Output:
    """A message to a queue, sent if and only if the one being handled is acked."""

    __slots__ = ("_message", "_queue")

    def __init__(self, queue: str, payload: Any, **options: Any) -> None:
        self._queue = names.queue_name(queue)
        self._message = sending.message(payload, options)  # type: ignore[arg-type]

    def outgoing(self) -> Outgoing:
        """The record to write."""
        found = self._message
        return Outgoing(self._queue, ANY_PARTITION, found.key, found.value, found.headers)
