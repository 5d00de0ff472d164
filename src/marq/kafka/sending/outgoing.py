"""The record that a message is sent as."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from marq.core.fate.redelivery import AHEAD_MS, STRAIGHT_MS
from marq.core.messages import header
from marq.core.messages.header import Meta
from marq.core.messages.sending import Message
from marq.core.messages.stored import ANY_PARTITION, Outgoing


def outgoing(queue: str, message: Message, delayed: str, now_ms: Callable[[], int]) -> Outgoing:
    """To the queue; what is not due soon is parked in `delayed`."""
    meta = Meta(
        message_id=message.message_id,
        delay_ms=message.delay_ms,
        due_ms=message.due_ms,
        ttl_ms=message.ttl_ms,
    )
    wait_ms = message.delay_ms or max(0, message.due_ms - now_ms())
    topic = queue
    if wait_ms >= STRAIGHT_MS:
        topic, meta = delayed, replace(meta, queue=queue, ahead_ms=AHEAD_MS)
    headers = header.join(meta, message.headers)
    return Outgoing(topic, ANY_PARTITION, message.key, message.value, headers)
