"""Leases: whoever does not settle in time has lost the message, and it comes back."""

from __future__ import annotations

import contextlib
from collections import Counter
from datetime import timedelta

import pytest

import marq
from tests.conformance.world import World

pytestmark = pytest.mark.needs_tracker


def test_a_message_that_is_not_settled_comes_back_with_the_next_attempt(world: World) -> None:
    orders = world.queue(lease="1s")
    sent = orders.send(b"1")
    assert world.take_one(orders).attempt == 1

    world.let_pass("1500ms")

    again = world.take_one(orders)
    assert (again.message_id, again.attempt) == (sent.message_id, 2)


def test_it_does_not_come_back_before_its_lease_is_over(world: World) -> None:
    orders = world.queue(lease="2s")
    orders.send(b"1")
    deadline = world.take_one(orders).deadline

    world.let_pass("1s")
    assert world.is_quiet_before(orders, deadline)

    world.let_pass("1s")
    world.take_one(orders)
    assert world.now() >= deadline


def test_the_lease_starts_when_a_message_is_handed_out(world: World) -> None:
    orders = world.queue(lease="2s")
    orders.send(b"1")
    world.let_pass("3s")
    before = world.now()

    delivery = world.take_one(orders)

    assert delivery.deadline - before >= timedelta(seconds=2)


@pytest.mark.parametrize("action", ["ack", "retry", "reject"])
def test_settling_after_the_deadline_is_lease_lost(world: World, action: str) -> None:
    orders = world.queue(lease="1s")
    sent = orders.send(b"1")
    late = world.take_one(orders)
    world.let_pass("2s")

    with pytest.raises(marq.LeaseLost, match="may be delivered again") as caught:
        getattr(late, action)().result(world.patience_s)

    assert caught.value.message_id == sent.message_id
    assert world.take_one(orders).attempt == 2


def test_extending_after_the_deadline_is_lease_lost(world: World) -> None:
    orders = world.queue(lease="1s")
    orders.send(b"1")
    late = world.take_one(orders)
    world.let_pass("2s")

    with pytest.raises(marq.LeaseLost):
        late.extend("1m").result(world.patience_s)


def test_a_late_ack_does_not_take_the_message_from_its_next_owner(world: World) -> None:
    orders = world.queue(lease="1s", backoff=("0s", "0s"))
    orders.send(b"1")
    first = world.take_one(orders)
    world.let_pass("1500ms")
    second = world.take_one(orders, lease="1s")

    with pytest.raises(marq.LeaseLost):
        first.ack().result(world.patience_s)

    assert not second.settled
    world.let_pass("1500ms")
    assert world.take_one(orders).attempt == 3


def test_an_ack_before_the_deadline_wins(world: World) -> None:
    orders = world.queue(lease="4s")
    orders.send(b"1")
    delivery = world.take_one(orders)
    world.let_pass("1s")

    delivery.ack().result(world.patience_s)

    world.let_pass("4s")
    assert world.is_quiet(orders)
    assert orders.dead_letters.list() == []


@pytest.mark.parametrize("first", ["ack", "retry", "reject"])
@pytest.mark.parametrize("second", ["ack", "retry", "reject"])
def test_settling_twice_is_already_settled(world: World, first: str, second: str) -> None:
    orders = world.queue()
    sent = orders.send(b"1")
    delivery = world.take_one(orders)
    getattr(delivery, first)().result(world.patience_s)

    with pytest.raises(marq.AlreadySettled, match="settled once") as caught:
        getattr(delivery, second)()

    assert caught.value.message_id == sent.message_id


def test_extending_what_was_settled_is_already_settled(world: World) -> None:
    orders = world.queue()
    orders.send(b"1")
    delivery = world.take_one(orders)
    delivery.ack().result(world.patience_s)

    with pytest.raises(marq.AlreadySettled):
        delivery.extend("1m")


def test_an_extended_lease_lasts_that_long_from_then_on(world: World) -> None:
    orders = world.queue(lease="3s")
    orders.send(b"1")
    delivery = world.take_one(orders)
    world.let_pass("1s")

    delivery.extend("20s").result(world.patience_s)

    world.let_pass("3s")
    assert world.is_quiet_before(orders, delivery.deadline)
    delivery.ack().result(world.patience_s)
    assert world.is_quiet(orders)


def test_an_extended_lease_ends_too(world: World) -> None:
    orders = world.queue(lease="2s")
    orders.send(b"1")
    delivery = world.take_one(orders)
    delivery.extend("3s").result(world.patience_s)

    world.let_pass("3500ms")

    assert world.take_one(orders).attempt == 2


def test_extending_never_makes_a_lease_shorter(world: World) -> None:
    orders = world.queue(lease="30s")
    orders.send(b"1")
    delivery = world.take_one(orders)
    before = delivery.deadline

    delivery.extend("1s").result(world.patience_s)

    assert delivery.deadline >= before


def test_being_prefetched_by_a_worker_that_died_is_not_an_attempt(world: World) -> None:
    orders = world.queue(lease="1s")
    orders.send(b"1", delay="2s")
    assert world.is_quiet(orders)  # taken in already, and not due

    world.crash_workers()
    world.let_pass("12s")

    assert world.take_one(orders).attempt == 1


def test_what_a_dead_worker_had_in_hand_comes_back_as_an_attempt(world: World) -> None:
    orders = world.queue(lease="1s")
    orders.send(b"1")
    world.take_one(orders)

    world.crash_workers()
    world.let_pass("2s")

    assert world.take_one(orders).attempt == 2


def test_of_21_messages_a_fifth_is_not_acked_at_first_and_in_the_end_all_are(world: World) -> None:
    orders = world.queue(lease="1s")
    orders.send_many(range(21))
    delivered: Counter[int] = Counter()
    acked: set[int] = set()

    def work() -> None:
        for delivery in orders.receive(100, world.doubt_s):
            assert delivery.payload not in acked, "acked, and came back"
            delivered[delivery.payload] += 1
            if delivery.attempt > 1 or delivery.payload % 5:
                with contextlib.suppress(marq.LeaseLost):  # a busy machine: once more, then
                    delivery.ack().result(world.patience_s)
                    acked.add(delivery.payload)

    for _ in range(20):
        world.let_pass("1200ms")
        work()
        if len(acked) == 21:
            break

    world.let_pass("2s")
    work()
    assert acked == set(range(21))
    assert all(delivered[number] > 1 for number in range(0, 21, 5))
