"""When a message is no longer wanted, and what becomes of it then."""

from __future__ import annotations

from enum import Enum

from marq.core.catalog.definitions import QueueDefinition
from marq.core.messages.stored import Stored, is_void

_NEVER = 1 << 62


class AtHand(Enum):
    """What becomes of a message that is about to be handed out."""

    WANTED = "it is handed out"
    ENDED = "it ends, and nothing is left of it"
    BURIED = "it is a dead letter"


def at_hand(stored: Stored, now_ms: int, queue: QueueDefinition) -> AtHand:
    """Whether it is still wanted: purged and expired messages are handed to nobody."""
    if is_void(stored, queue.purged):
        return AtHand.ENDED
    if not expired(stored, now_ms, queue):
        return AtHand.WANTED
    return AtHand.BURIED if queue.dead_letter else AtHand.ENDED


def expired(stored: Stored, now_ms: int, queue: QueueDefinition) -> bool:
    """Whether the message's own ttl or its queue's is over; both count from when it was sent."""
    meta = stored.meta()
    sent_ms = meta.sent_ms or stored.at_ms
    own_ms = meta.expires_at(stored.at_ms) or _NEVER
    queues_ms = _NEVER if queue.ttl_ms is None else sent_ms + queue.ttl_ms
    return now_ms >= min(own_ms, queues_ms)
