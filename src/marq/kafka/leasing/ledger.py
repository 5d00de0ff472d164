"""The ledger: what this process has of the claims of one markers partition."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Any, NamedTuple

from marq.core.markers.marker import Claim, KeepAlive
from marq.errors import QueueError
from marq.kafka.leasing.append_time import AppendTime
from marq.kafka.leasing.desk import Desk
from marq.kafka.leasing.given_back import GivenBack
from marq.kafka.leasing.handout import Handout
from marq.kafka.leasing.live import LiveClaim
from marq.kafka.leasing.statements import LedgerBatch, Reply, Statement

_HANDOUTS_A_RECORD = 2_000


class Beat(NamedTuple):
    """A keep-alive, and what it keeps alive."""

    marker: KeepAlive
    claims: list[LiveClaim]
    handouts: list[Handout]

    def appended(self, appended: AppendTime) -> None:
        """The log took it."""
        for live in self.claims:
            live.beaten(appended)
        for handout in self.handouts:
            handout.beaten(appended)


class Ledger(Desk):
    """What was claimed, handed out, begun, held and ended, and what of that is to be written.

    `collect()` gives the next statements, `reported()` takes the log's answer to them.
    """

    dirty: deque[Handout]
    claims: dict[int, LiveClaim]
    kept: set[Handout]
    copied: deque[GivenBack]

    def claim(self, claim: Claim, messages: list[Any], end: int) -> LiveClaim:
        """A claim about to be written."""
        return LiveClaim(claim, messages, end, self)

    def collect(self) -> list[list[Statement]]:
        """What is to be written next, each list in records of its own; empty: nothing.

        One at a time: what is said of a handout must be written in the order it was said.
        """
        batch = LedgerBatch()
        try:
            with self.lock:
                for _ in range(min(len(self.dirty), _HANDOUTS_A_RECORD)):
                    batch.take(self.dirty.popleft())
            return batch.statements()
        except BaseException as error:  # what was taken is said by nobody else
            batch.fail(QueueError(f"not settled, it will come back: {error!r}"))
            raise

    def beat(self, now_ms: int) -> Beat | None:
        """What is to be kept alive; None: nothing is. What has lapsed is let go of."""
        with self.lock:
            for live in [live for live in self.claims.values() if live.has_lapsed(now_ms)]:
                del self.claims[live.claim.id.sequence]
            claims = [live for live in self.claims.values() if live.needs_beats]
            kept = list(self.kept)
        for handout in kept:
            self.beat_within(handout.lease_ms - handout.ahead_ms)
        if not claims:
            return None
        sequences = tuple(sorted(live.claim.id.sequence for live in claims))
        known = [handout for handout in kept if handout.begun_known]
        return Beat(KeepAlive(claims[0].claim.id.worker, sequences), claims, known)

    def end_copied(self) -> None:
        """End what was given back and whose copy is in the log by now; several threads may."""
        for given in list(self.copied):
            if given.step():
                with contextlib.suppress(ValueError):  # another thread was faster
                    self.copied.remove(given)

    def unwritten(self) -> int:
        """Messages that were settled, of which nothing is written yet."""
        return len(self.copied) + sum(handout.unwritten for handout in list(self.dirty))

    def in_hands(self) -> bool:
        """Whether there is anything that may still be settled."""
        return any(live.left > live.unbegun for live in list(self.claims.values()))


def reported(
    statements: list[Statement], appended: AppendTime | None, error: Exception | None = None
) -> list[Reply]:
    """The log took a record of these, or never will (None), for that reason; what was settled by
    it in vain."""
    return [reply for each in statements for reply in each.heard(appended, error)]
