"""Where a message waits for its time: parked in the hold log, or straight in its queue."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from marq.core.messages import header
from marq.core.messages.header import Meta
from marq.core.messages.sending import Message
from marq.core.messages.stored import ANY_PARTITION, Outgoing

AHEAD_MS = 3_000
"""How long before its time a delayed message or a retry is emitted: the client hands it out to the
millisecond. Must cover two micro-batches with their acts."""
STRAIGHT_MS = 10_000
"""A message due within this goes straight to its queue and waits in a worker; a later one is
parked."""


def is_parked(wait_ms: int) -> bool:
    """Whether a message that is due in so long is parked."""
    return wait_ms >= STRAIGHT_MS


def sent(queue: str, message: Message, delayed: str, now_ms: Callable[[], int]) -> Outgoing:
    """The record that a message is sent as: to the queue, or parked in `delayed`."""
    meta = Meta(
        message_id=message.message_id,
        delay_ms=message.delay_ms,
        due_ms=message.due_ms,
        ttl_ms=message.ttl_ms,
    )
    topic = queue
    if is_parked(message.delay_ms or max(0, message.due_ms - now_ms())):
        topic, meta = delayed, replace(meta, queue=queue, ahead_ms=AHEAD_MS)
    headers = header.join(meta, message.headers)
    return Outgoing(topic, ANY_PARTITION, message.key, message.value, headers)
