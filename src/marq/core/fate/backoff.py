"""How long to wait before the next attempt."""

from __future__ import annotations


def backoff_ms(first_ms: int, cap_ms: int, attempt: int, jitter: float) -> int:
    """The wait after failed attempt number `attempt`: doubled each time, up to the cap.

    `jitter` (0 to 1, passed in) adds up to a quarter, so that messages that failed together do
    not come back together; never less than the queue's backoff says.
    """
    doubled = min(cap_ms, first_ms << min(max(attempt, 1) - 1, 40))
    return doubled + int(doubled * jitter / 4)
