"""Laws of ordered groups: each offset is acked once, in order, and only by the claim the log grants
it to; whatever crashes, pauses, lags, lands late, lapses or is changed meanwhile.

What runs is the product's own protocol (`marq.groups`); the broker and the schedules are simulated.
MARQ_EXAMPLES=70 tries more than 20,000 schedules.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given

from tests.properties.chance import Chance, chances
from tests.properties.effort import EXAMPLES, tried
from tests.properties.groups_broker import Violation
from tests.properties.groups_process import KNOCK_OUTS
from tests.properties.groups_world import World

LONG, SHORT = 6_000, 3_000
"""Choices of a schedule: about two to each step."""
MOST = 2_000
KNOWN = {
    "prev-after-init": 168,
    "claim-record-after-init": 173,
    "no-proxy-init": 88,
    "last-hold-counts": 93,
    "unstable-committed": 736,
    "old-position": 45,
}
"""Schedules from which on it does not take long to find a violation."""


def schedule(seed: int, length: int) -> Chance:
    return Chance(random.Random(seed).randbytes(length))


@tried(3)
@given(chances(1_500))
def test_each_offset_is_acked_once_in_order_by_the_claim_that_holds_it(chance: Chance) -> None:
    World(chance).run()


@pytest.mark.timeout(7_200)  # as long as MARQ_EXAMPLES asks for
def test_in_every_long_schedule_too_and_in_the_end_everyone_has_what_they_should() -> None:
    acks = 0
    for seed in range(3 * EXAMPLES):
        world = World(schedule(seed, LONG))

        world.run()
        world.calm_down()

        acks += world.broker.acks
    assert acks > 10 * EXAMPLES, "the schedules are of no use if nothing is acked"


def violates(knocked_out: str, seed: int) -> bool:
    try:
        World(schedule(seed, SHORT), knocked_out).run()
    except Violation:
        return True
    return False


@pytest.mark.parametrize("knocked_out", KNOCK_OUTS)
def test_without_this_rule_messages_are_acked_twice_or_by_who_must_not(knocked_out: str) -> None:
    first = KNOWN.get(knocked_out, 0)

    assert any(violates(knocked_out, seed) for seed in range(first, first + MOST))


def test_asking_for_what_others_hold_is_only_useless() -> None:
    assert not any(violates("no-r2", seed) for seed in range(EXAMPLES))
