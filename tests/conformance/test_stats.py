"""Stats: what waits, what is in hand, what comes later, what is dead."""

from __future__ import annotations

import pytest

import marq
from tests.conformance.world import World

pytestmark = pytest.mark.needs_tracker


def wait_for(world: World, queue: marq.Queue[bytes], **figures: int) -> marq.Stats:
    """The stats, once they show these figures and 0 for the rest."""
    wanted = {"ready": 0, "in_flight": 0, "delayed": 0, "dead": 0} | figures

    def shown() -> dict[str, int]:
        stats = queue.stats()
        return {name: getattr(stats, name) for name in wanted}

    world.wait_until(lambda: shown() == wanted)
    return queue.stats()


def test_a_new_queue_has_nothing(world: World) -> None:
    stats = wait_for(world, world.queue())

    assert stats.oldest_age == 0


def test_a_message_is_ready_then_in_flight_then_gone(world: World) -> None:
    orders = world.queue()
    orders.send_many([b""] * 3)
    wait_for(world, orders, ready=3)

    delivery = world.take_one(orders)
    wait_for(world, orders, ready=2, in_flight=1)

    delivery.ack().result(world.patience_s)
    wait_for(world, orders, ready=2)


def test_short_and_long_delays_are_delayed_until_they_are_due(world: World) -> None:
    orders = world.queue()
    orders.send(b"", delay="9s")
    orders.send(b"", delay="12s")
    wait_for(world, orders, delayed=2)

    world.let_pass("12s")
    wait_for(world, orders, ready=2)


@pytest.mark.parametrize("after", ["9s", "12s", "2h"])
def test_what_waits_for_its_retry_is_delayed(world: World, after: str) -> None:
    orders = world.queue()
    orders.send(b"")

    world.take_one(orders).retry(after=after).result(world.patience_s)

    wait_for(world, orders, delayed=1)


def test_what_came_back_is_ready(world: World) -> None:
    orders = world.queue(lease="1s")
    orders.send(b"")
    world.take_one(orders)

    world.let_pass("2s")

    wait_for(world, orders, ready=1)


def test_dead_letters_are_counted_until_they_are_redriven_or_discarded(world: World) -> None:
    orders = world.queue()
    orders.send_many([b"", b""])
    for delivery in world.take(orders, 2):
        delivery.reject().result(world.patience_s)
    wait_for(world, orders, dead=2)

    orders.dead_letters.redrive(limit=1)
    wait_for(world, orders, ready=1, dead=1)

    orders.dead_letters.discard()
    wait_for(world, orders, ready=1)


def test_a_purge_leaves_nothing_to_count(world: World) -> None:
    orders = world.queue()
    orders.send_many([b""] * 3)
    orders.send(b"", delay="12s")

    orders.purge()

    wait_for(world, orders)


def test_the_oldest_age_is_that_of_the_oldest_message_not_acked(world: World) -> None:
    orders = world.queue(partitions=1)
    orders.send(b"old")
    world.let_pass("3s")
    before = world.now()
    orders.send(b"young")
    assert wait_for(world, orders, ready=2).oldest_age >= 3

    world.take_one(orders).ack().result(world.patience_s)

    age = wait_for(world, orders, ready=1).oldest_age
    assert age < (world.now() - before).total_seconds() + 1  # it is that of the young one


def test_the_figures_of_two_queues_are_apart(world: World) -> None:
    orders, bills = world.queue(), world.queue()
    orders.send(b"")
    orders.send(b"", delay="12s")

    wait_for(world, bills)
    wait_for(world, orders, ready=1, delayed=1)
