"""Who is alive, as far as leases tell; who must be fenced. Time is passed in, never read.

Leases only say when to try: what a wrong guess costs is a takeover, never a message.
"""

from __future__ import annotations

from marq.groups.records import LeaseBeat
from marq.groups.table import EMPTY, Table


class LeaseWatch:
    """Judges leases by the reader's own clock, since it read them."""

    def __init__(self) -> None:
        self._table = EMPTY
        self._beats: dict[str, tuple[LeaseBeat, int]] = {}
        self._claims: dict[str, tuple[str, int]] = {}
        """By member, the owner claim and when it was first seen."""
        self._blocked: dict[tuple[str, int], int] = {}
        """By member and config version, since when it holds what another should have."""
        self._since_ms: int | None = None
        self._lease_ms = 0
        self._fresh = set[str]()
        """Claims that have beaten since the end was reached: these live for sure."""

    def caught_up(self, now_ms: int) -> None:
        """The lease topic was read to its end: from now on silence means something."""
        if self._since_ms is None:
            self._since_ms = now_ms

    def beat(self, lease: LeaseBeat, now_ms: int) -> None:
        self._beats[lease.member] = lease, now_ms
        if self._since_ms is not None:
            self._fresh.add(lease.claim)

    def follow(self, table: Table, now_ms: int) -> None:
        """The control log was read further."""
        self._table = table
        if table.config:
            self._lease_ms = table.config.lease_ms
        for member in table.holders:
            claim = table.claim(member)
            if self._claims.get(member, ("", 0))[0] != claim:
                self._claims[member] = claim, now_ms

    def is_live(self, member: str, now_ms: int) -> bool:
        """Whether the member's active instance may be alive."""
        holder, config = self._table.holders.get(member), self._table.config
        if holder is None or config is None or holder.latest.proxy:
            return False
        if self._since_ms is None:
            return True
        claim, seen_ms = self._claims[member]
        lease, beaten_ms = self._beats.get(member, (None, 0))
        if lease is not None and lease.claim == claim:
            if lease.resigned:
                return False
            seen_ms = max(seen_ms, beaten_ms)
        return now_ms - max(seen_ms, self._since_ms) < config.lease_ms

    def is_known(self, member: str, now_ms: int) -> bool:
        """Whether more waiting would tell nothing new about the member."""
        return self._table.claim(member) in self._fresh or not self.is_live(member, now_ms)

    def living(self, now_ms: int) -> list[str]:
        """Members whose owner claim has beaten within a lease; of a deleted group too."""
        return [
            member
            for member, (lease, at_ms) in self._beats.items()
            if lease.claim == self._table.claim(member)
            and not lease.resigned
            and now_ms - at_ms < self._lease_ms
        ]

    def active(self, now_ms: int) -> dict[str, str]:
        """The instance of each member that is alive."""
        return {
            member: holder.latest.instance
            for member, holder in self._table.holders.items()
            if self.is_live(member, now_ms)
        }

    def overdue(self, member: str, now_ms: int) -> str | None:
        """Someone who holds what `member` should have and is dead, or had its time to hand over."""
        table, config = self._table, self._table.config
        if config is None:
            return None
        wanted = table.wanted(member)
        for other, holder in table.holders.items():
            if other == member or not wanted & holder.held:
                continue
            since_ms = self._blocked.setdefault((other, table.version), now_ms)
            # Twice: the other drains for one ack_wait, then it gives up by itself.
            if not self.is_live(other, now_ms) or now_ms - since_ms > 2 * config.ack_wait_ms:
                self._blocked[other, table.version] = now_ms
                return other
        return None
