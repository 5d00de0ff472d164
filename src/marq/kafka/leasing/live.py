"""Claims of this process."""

from __future__ import annotations

from typing import Any

from marq.core.markers.marker import Claim
from marq.core.messages.header import Past
from marq.kafka.leasing.append_time import AppendTime
from marq.kafka.leasing.desk import Desk


class LiveClaim:
    """A claim with messages that this process has and that have not ended."""

    __slots__ = (
        "acknowledged",
        "claim",
        "desk",
        "end",
        "failed",
        "given_up",
        "kept",
        "lapse_ms",
        "leased_ms",
        "left",
        "messages",
        "partition",
        "retried",
        "start",
        "unbegun",
    )

    def __init__(self, claim: Claim, messages: list[Any], end: int, desk: Desk) -> None:
        self.claim = claim
        self.messages = messages
        self.partition = claim.source.partition
        self.start = claim.start
        self.end = end
        self.desk = desk
        self.acknowledged = self.failed = self.given_up = False
        self.lapse_ms = 0
        """Until when what is not begun is ours; 0 until the claim is acknowledged."""
        self.left = self.unbegun = len(messages)
        """Messages that are this process's, and those of them that wait to be handed out."""
        self.kept = 0
        """Handouts of it that are kept alive."""
        self.leased_ms = 0
        """When the last lease on what was handed out of it is over, as far as known."""
        self.retried: dict[int, tuple[Past, ...]] = {}
        """By index, the attempts that ended in a retry and whose message stayed here."""

    @property
    def needs_beats(self) -> bool:
        return (self.unbegun > 0 and not self.given_up) or self.kept > 0

    def has_lapsed(self, now_ms: int) -> bool:
        """Whether all that is open of it was handed out to whoever has let it lapse: it comes back
        by itself, and an ack of it that is on its way is judged without the claim."""
        return not self.unbegun and not self.kept and self.leased_ms <= now_ms

    def answered(self, appended: AppendTime | None) -> None:
        """The log took the claim, or never will (None)."""
        if appended is None:
            self.failed = True
        else:
            self.lapse_ms = appended.earliest_ms + self.claim.lease_ms
        self.acknowledged = True

    def beaten(self, appended: AppendTime) -> None:
        """The log took a beat. One that came too late is the last: after a silence the log gives
        leases more time than we reckon with, and what nobody here will settle must not be kept
        from others."""
        if appended.latest_ms < self.lapse_ms:
            self.lapse_ms = max(self.lapse_ms, appended.earliest_ms + self.claim.lease_ms)
        else:
            self.given_up = True

    # With the desk's lock held.

    def keep(self) -> None:
        """Something of it is this process's, to be beaten."""
        self.desk.claims[self.claim.id.sequence] = self

    def leave(self, count: int, unbegun: int = 0) -> None:
        """That many of its messages are no longer this process's."""
        self.left -= count
        self.unbegun -= unbegun
        if self.left == 0:
            self.desk.claims.pop(self.claim.id.sequence, None)

    # Without.

    def committed(self) -> None:
        """Its offset is committed: its messages are this process's, and beaten from now on."""
        with self.desk.lock:
            self.keep()

    def drop(self, count: int) -> None:
        """So many that waited are not this process's any more: they come back by themselves."""
        with self.desk.lock:
            self.leave(count, unbegun=count)
