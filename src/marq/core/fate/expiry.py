"""When a message is no longer wanted."""

from __future__ import annotations

from marq.core.catalog.definitions import QueueDefinition
from marq.core.messages.stored import Stored

_NEVER = 1 << 62


def expired(stored: Stored, now_ms: int, queue: QueueDefinition) -> bool:
    """Whether the message's own ttl or its queue's is over; both count from when it was sent."""
    meta = stored.meta()
    sent_ms = meta.sent_ms or stored.at_ms
    own_ms = meta.expires_at(stored.at_ms) or _NEVER
    queues_ms = _NEVER if queue.ttl_ms is None else sent_ms + queue.ttl_ms
    return now_ms >= min(own_ms, queues_ms)
