"""The hold a worker writes when it does not ack."""

from __future__ import annotations

from marq.core.catalog.definitions import QueueDefinition
from marq.core.fate.backoff import backoff_ms
from marq.core.fate.parking import AHEAD_MS, is_parked
from marq.core.markers.marker import Action, ClaimId, Held

PUMP_LEASE_MS = 11_000
"""How long prefetched messages outlive their worker: until its consumer group has noticed, which
takes a session timeout of 6 s, and some."""
EXPIRED = "expired: its ttl was over"
PARK_MS = 3_600_000
"""A retry later than this is parked, so that it does not stay in the fold for days."""


def retried(
    claim: ClaimId, indexes: int, attempt: int, after_ms: int, reason: str, queue: QueueDefinition
) -> Held:
    """Deliver again after a while; at once where only a dead letter can come of it."""
    if attempt >= queue.max_attempts:
        after_ms = 0
    # Emitted at once, a long retry is parked by act; else as much ahead as keeps it on time.
    ahead_ms = after_ms if after_ms > PARK_MS else AHEAD_MS
    return Held(claim, indexes, Action.REDELIVER, after_ms, ahead_ms, reason)


def stays(after_ms: int, attempt: int, queue: QueueDefinition) -> bool:
    """Whether a retry waits in the worker that asked for it: a short one does, while attempts are
    left."""
    return not is_parked(after_ms) and attempt < queue.max_attempts


def kept(claim: ClaimId, indexes: int, after_ms: int, reason: str, queue: QueueDefinition) -> Held:
    """The hold of a retry that waits in its worker: the message comes back to others only if that
    one has not begun it again a lease after it was due."""
    return Held(claim, indexes, Action.REDELIVER, after_ms + queue.lease_ms, reason=reason)


def deferred(claim: ClaimId, indexes: int, after_ms: int) -> Held:
    """The hold of a message that is not due and finds no room to wait in."""
    return Held(claim, indexes, Action.REDELIVER, after_ms, AHEAD_MS)


def outlived(claim: ClaimId, indexes: int) -> Held:
    """Make a message whose ttl is over a dead letter."""
    return Held(claim, indexes, Action.BURY, reason=EXPIRED)


def rejected(claim: ClaimId, indexes: int, reason: str) -> Held:
    """Make it a dead letter."""
    return Held(claim, indexes, Action.BURY, reason=reason or "rejected")


def extended(claim: ClaimId, indexes: int, duration_ms: int) -> Held:
    """Make the lease last."""
    return Held(claim, indexes, Action.EXTEND, duration_ms)


def backoff(attempt: int, queue: QueueDefinition, jitter: float) -> int:
    """How long a failed attempt waits, where nobody said."""
    first_ms, cap_ms = queue.backoff_ms
    return backoff_ms(first_ms, cap_ms, attempt, jitter)


def ahead_ms(lease_ms: int, kept_alive: bool) -> int:
    """How long before the deadline a worker gives a lease up as lost.

    A kept-alive one is copied that much ahead, so that it is handed out at the deadline; a pull
    consumer may use its lease to the last millisecond.
    """
    return min(AHEAD_MS, lease_ms // 2) if kept_alive else 0
