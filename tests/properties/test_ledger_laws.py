"""Laws of a worker's ledger: whatever lands late, twice or never, it says what the log says."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given

from marq.errors import QueueError
from tests.properties.chance import Chance, chances
from tests.properties.effort import tried
from tests.properties.ledger_world import LedgerWorld


class History:
    """What happens to a ledger, as chance has it."""

    def __init__(self, chance: Chance) -> None:
        self.chance = chance
        self.world = LedgerWorld()
        happenings: list[tuple[int, Callable[[], None]]] = [
            (4, lambda: self.world.claim(1 + chance.below(4))),
            (8, self.hand_out),
            (6, lambda: self.with_a_hand(self.world.ack)),
            (2, lambda: self.with_a_hand(self.world.retry)),
            (1, lambda: self.with_a_hand(self.world.reject)),
            (2, lambda: self.with_a_hand(lambda hand: self.world.extend(hand, 2_000))),
            (1, lambda: self.with_a_hand(self.world.let_go)),
            (1, self.give_back),
            (6, self.world.flush),
            (4, self.world.beat),
            (12, lambda: self.world.land(1)),
            (1, lambda: self.world.land(2)),
            (1, lambda: self.world.land(0)),
            (12, self.world.hear),
            (6, lambda: self.world.time_passes(50 * (1 + chance.below(12)))),
        ]
        self._happenings = [it for weight, it in happenings for _ in range(weight)]

    def run(self) -> None:
        while self.chance.left():
            self.chance.pick(self._happenings)()
            self.check()
        self.settle_down()
        self.check()

    def hand_out(self) -> None:
        if self.world.lives:
            live = self.chance.pick(self.world.lives)
            kept_alive = bool(self.chance.below(2))
            lease_ms = self.chance.pick((800, 300, 2_000))
            self.world.hand_out(live, 1 + self.chance.below(3), lease_ms, kept_alive)

    def give_back(self) -> None:
        if self.world.lives:
            self.world.give_back(self.chance.pick(self.world.lives))

    def with_a_hand(self, settle: Callable[..., None]) -> None:
        if usable := list(self.world.usable()):
            settle(self.chance.pick(usable))

    def settle_down(self) -> None:
        """All that was written lands, and is heard of."""
        self.world.flush()
        while self.world.pending or self.world.unheard:
            self.world.land(1)
            self.world.hear()

    def check(self) -> None:
        world = self.world
        assert not world.says_ours() & world.given_away, "two have it at once"
        for offset, receipt in world.acks:
            if receipt.done() and _is_granted(receipt.result):
                assert offset not in world.given_away, "an ack was confirmed that came too late"
                assert offset not in world.open(), "an ack was confirmed that is not in the log"


def _is_granted(result: Callable[[float], object]) -> bool:
    try:
        result(0)
    except QueueError:
        return False
    return True


@tried(3)
@given(chances(120))
def test_what_the_ledger_says_is_what_the_log_says(chance: Chance) -> None:
    History(chance).run()


@given(chances(120))
def test_whoever_settles_hears_of_it_and_the_books_are_even(chance: Chance) -> None:
    history = History(chance)

    history.run()

    world = history.world
    assert all(receipt.done() for receipt in world.receipts)
    for live in world.lives:
        waiting = len(world.waiting[live])
        in_hands = sum(hand.handout.claim is live and not hand.settled for hand in world.hands)
        assert (live.unbegun, live.left) == (waiting, waiting + in_hands)
        assert (live.claim.id.sequence in world.ledger.claims) <= (live.left > 0)


@given(chances(120))
def test_nothing_is_beaten_that_nobody_will_settle(chance: Chance) -> None:
    history = History(chance)
    history.run()
    world = history.world

    for live in world.lives:
        world.give_back(live)
    for hand in world.hands:
        if not hand.settled:
            world.let_go(hand)
    history.settle_down()

    assert world.ledger.beat(world.now_ms) is None
    assert (world.ledger.claims, world.ledger.kept, world.ledger.unwritten()) == ({}, set(), 0)
