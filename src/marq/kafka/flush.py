"""What one flush of a lane writes, and what the log's answer means for it."""

from __future__ import annotations

from marq.core.marker import Begun, ClaimId, Held, Step
from marq.kafka.answers import Answer
from marq.kafka.handout import Handout, as_mask
from marq.kafka.lane import Lane


class Item:
    """What one record says of one handout."""

    __slots__ = ("begun", "begun_taken", "ended", "handout", "receipt")

    def __init__(self, handout: Handout, ended: int, begun: bool, receipt: Answer[None]) -> None:
        self.handout = handout
        self.ended = ended
        self.begun = begun
        self.begun_taken = handout.begun_taken
        self.receipt = receipt


class Steps:
    """What one progress record says."""

    def __init__(self) -> None:
        self._steps: dict[ClaimId, tuple[int, list[Begun]]] = {}
        self.items: list[Item] = []

    def add(self, item: Item, ended: int, begun: Begun | None) -> None:
        claim = item.handout.claim.claim.id
        known, started = self._steps.get(claim, (0, []))
        self._steps[claim] = (known | ended, [*started, begun] if begun else started)
        self.items.append(item)

    def in_order(self) -> tuple[Step, ...]:
        steps = sorted(self._steps.items())
        return tuple(Step(claim, ended, tuple(begun)) for claim, (ended, begun) in steps)


class Batch:
    """What one flush of a lane writes."""

    def __init__(self) -> None:
        self.first, self.rest = Steps(), Steps()
        self.held: list[Held] = []
        self.holding: list[Item] = []

    def take(self, handout: Handout) -> None:
        """Take what a handout has gathered; the lane's lock is held."""
        ended, held, leaving, receipt = handout.take()
        mask = as_mask(ended) if ended else 0
        begun = handout.begun_record(mask)
        if held:
            self.held += held
            self.holding.append(Item(handout, leaving, False, receipt))
        if begun and held:
            self.first.add(Item(handout, 0, True, receipt), 0, begun)
            begun = None
        if ended or begun:
            self.rest.add(Item(handout, len(ended), begun is not None, receipt), mask, begun)


def settled(lane: Lane, handout: Handout, count: int) -> None:
    """Count what has left a claim; the lane's lock is held."""
    handout.leave(count)
    handout.claim.leave(count)


def answer(receipt: Answer[None], handout: Handout, in_time: bool) -> None:
    if in_time:
        receipt.fill(None)
    else:
        receipt.fail(handout.lost("of this delivery"))
