"""What is written of the handouts of a ledger, and what the log's answer means for them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import NamedTuple

from marq.core.markers.marker import Begun, ClaimId, Held, Hold, Progress, Step
from marq.errors import QueueError
from marq.kafka.client.answers import Answer
from marq.kafka.leasing.append_time import AppendTime
from marq.kafka.leasing.handout import Handout, as_mask

log = logging.getLogger("marq.kafka")


_REFUSED = QueueError("not settled, it will come back: the cluster refuses the marker")


class Reply:
    """What whoever settled messages is told, once each record that says so is heard of."""

    __slots__ = ("_error", "_handout", "_in_time", "count", "receipt", "waits")

    def __init__(self, handout: Handout, count: int, receipt: Answer[None]) -> None:
        self._handout = handout
        self.count = count
        """Messages that leave the handout with it."""
        self.receipt = receipt
        self._in_time = True
        self._error: Exception | None = None
        self.waits = 0
        """Statements of it that were not heard of yet."""

    def heard(self, appended: AppendTime | None, error: Exception | None) -> bool:
        """The log took a statement of it, or never will (None); whether all was in vain."""
        handout = self._handout
        with handout.desk.lock:
            self._in_time = self._in_time and handout.judge(appended)
            self._error = self._error or error or (_REFUSED if appended is None else None)
            self.waits -= 1
            if self.waits:
                return False
            handout.leave(self.count)
            handout.claim.leave(self.count)
        if self._error is not None:
            self.receipt.fail(self._error)
        elif self._in_time:
            self.receipt.fill(None)
        else:
            self.receipt.fail(handout.lost("of this delivery"))
        return self._error is not None

    def fail(self, error: Exception) -> None:
        """Nobody can say what became of it."""
        self.receipt.fail(error)

    def not_written(self, error: Exception) -> None:
        """Nothing of it is written, nor will be."""
        self.waits = 1
        self.heard(None, error)


class Item:
    """What one statement says of one handout."""

    __slots__ = ("begun", "begun_written", "handout", "reply")

    def __init__(
        self, handout: Handout, begun: bool, begun_written: int, reply: Reply | None
    ) -> None:
        self.handout = handout
        self.begun = begun
        self.begun_written = begun_written
        """How many begun one by one are known by it; -1: it says nothing of that."""
        self.reply = reply
        """None: nothing is settled by it."""

    def heard(self, appended: AppendTime | None, error: Exception | None) -> bool:
        """The log took it, or never will (None); whether messages were settled in vain."""
        handout = self.handout
        if self.begun:
            handout.begun_at(appended, self.begun_written)
        elif appended is not None:
            handout.known = max(handout.known, self.begun_written)
        if self.begun and handout.begin is not None:
            if handout.begun_known:
                handout.begin.fill(None)
            else:
                handout.begin.fail(handout.lost("of this delivery"))
        return self.reply is not None and self.reply.heard(appended, error)


class Statement(NamedTuple):
    """A statement, and whom it is about."""

    says: Step | Held
    items: list[Item]

    def heard(self, appended: AppendTime | None, error: Exception | None) -> Iterator[Reply]:
        """The log took it, or never will (None): nobody whom it concerns misses that for another.
        What was settled in vain."""
        for item in self.items:
            try:
                if item.heard(appended, error) and item.reply is not None:
                    yield item.reply
            except Exception as unheard:
                log.exception("a report was not heard")
                if item.reply is not None:
                    item.reply.fail(unheard)


def settled(said: list[Statement]) -> int:
    """How many messages these settle."""
    replies = {item.reply for each in said for item in each.items if item.reply is not None}
    return sum(reply.count for reply in replies)


def marker(said: list[Statement]) -> Progress | Hold:
    """The marker that says all of it: steps or holds, never both."""
    statements = tuple(each.says for each in said)
    if isinstance(statements[0], Held):
        return Hold(statements)  # type: ignore[arg-type]
    return Progress(statements)  # type: ignore[arg-type]


class Steps:
    """Steps, one for each claim."""

    def __init__(self) -> None:
        self._ended: dict[ClaimId, int] = {}
        self._begun: dict[ClaimId, list[Begun]] = {}
        self._items: dict[ClaimId, list[Item]] = {}

    def add(self, item: Item, ended: int, begun: Begun | None) -> None:
        claim = item.handout.claim.claim.id
        self._ended[claim] = self._ended.get(claim, 0) | ended
        self._items.setdefault(claim, []).append(item)
        if begun is not None:
            self._begun.setdefault(claim, []).append(begun)

    def statements(self) -> list[Statement]:
        """In the order of the claims."""
        return [
            Statement(Step(claim, ended, tuple(self._begun.get(claim, ()))), self._items[claim])
            for claim, ended in sorted(self._ended.items())
        ]


class LedgerBatch:
    """What is written next of a ledger: begun, held, begun again, in this order. A begun that came
    after the hold that settles it would take the message back into a lease."""

    def __init__(self) -> None:
        self._first, self._rest = Steps(), Steps()
        self._held: list[Statement] = []
        self._replies: list[Reply] = []

    def take(self, handout: Handout) -> None:
        """Take what a handout has gathered; the desk's lock is held."""
        ended, held, leaving, receipt = handout.take()
        mask = as_mask(ended) if ended else 0
        begun = handout.begun_record(mask)
        reply = Reply(handout, len(ended) + leaving, receipt)
        self._replies.append(reply)
        if begun and held:
            self._first.add(Item(handout, True, handout.begun_written, None), 0, begun)
            begun = None
        for each in held:
            reply.waits += 1
            self._held.append(Statement(each, [Item(handout, False, -1, reply)]))
        if ended or begun:
            reply.waits += bool(ended)
            about = (begun is not None, handout.begun_written, reply if ended else None)
            self._rest.add(Item(handout, *about), mask, begun)

    def fail(self, error: Exception) -> None:
        """It is not written: whoever settled messages by it is told, and they come back."""
        for reply in self._replies:
            reply.not_written(error)

    def statements(self) -> list[list[Statement]]:
        """What it says: each a list for records of its own."""
        found = self._first.statements(), self._held, self._rest.statements()
        return [statements for statements in found if statements]
