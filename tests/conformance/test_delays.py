"""Delays: never early, in the order of their time, cancelled while they are parked."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.conformance.world import World


def test_a_delayed_message_is_never_early(world: World) -> None:
    orders = world.queue()
    before = world.now()

    sent = orders.send(b"1", delay="4s")

    assert sent.due is not None
    assert sent.due - before >= timedelta(seconds=4)
    assert world.is_quiet_before(orders, sent.due)
    world.let_pass("2s")
    assert world.is_quiet_before(orders, sent.due)
    world.let_pass("2s")
    delivery = world.take_one(orders)
    assert world.now() >= sent.due
    assert (delivery.attempt, delivery.message_id) == (1, sent.message_id)


def test_a_message_for_a_certain_time_is_never_early(world: World) -> None:
    orders = world.queue()
    at = world.now() + timedelta(seconds=4)

    sent = orders.send(b"1", at=at)

    assert sent.due == at
    assert world.is_quiet_before(orders, at)
    world.let_pass("4s")
    world.take_one(orders)
    assert world.now() >= at


def test_a_message_for_a_time_that_has_passed_is_delivered_at_once(world: World) -> None:
    orders = world.queue()

    orders.send(b"1", at=world.now() - timedelta(hours=1))

    assert world.take_one(orders).payload == b"1"


@pytest.mark.needs_tracker
def test_a_long_delay_is_never_early(world: World) -> None:
    orders = world.queue()
    sent = orders.send({"a": 1}, key="k", headers={"h": "v"}, delay="12s")

    world.let_pass("11s")
    assert world.is_quiet_before(orders, sent.due)
    world.let_pass("1s")

    delivery = world.take_one(orders)
    assert sent.due is not None
    assert world.now() >= sent.due
    assert (delivery.payload, delivery.key, delivery.headers["h"]) == ({"a": 1}, b"k", b"v")
    assert (delivery.attempt, delivery.message_id) == (1, sent.message_id)
    assert delivery.sent_at <= sent.due - timedelta(seconds=12)


@pytest.mark.needs_tracker
def test_a_message_for_a_far_time_waits_for_it(world: World) -> None:
    orders = world.queue()
    at = world.now() + timedelta(seconds=12)
    orders.send(b"1", at=at)

    world.let_pass("12s")

    world.take_one(orders)
    assert world.now() >= at


def test_delayed_messages_do_not_block_the_others(world: World) -> None:
    orders = world.queue(partitions=1)
    orders.send(b"later", delay="5s")
    orders.send(b"now")

    assert world.take_one(orders).payload == b"now"


def test_messages_come_in_the_order_of_their_time(world: World) -> None:
    orders = world.queue(partitions=1)
    soon = world.now() + timedelta(seconds=2)
    for number in (3, 1, 2):
        orders.send(number, at=soon + timedelta(milliseconds=number))

    world.let_pass("2100ms")

    assert [d.payload for d in world.take(orders, 3)] == [1, 2, 3]


@pytest.mark.needs_tracker
def test_parked_messages_come_in_the_order_of_their_time(world: World) -> None:
    orders = world.queue(partitions=1)
    later = world.now() + timedelta(seconds=11)
    for number in (3, 1, 2):
        orders.send(number, at=later + timedelta(milliseconds=300 * number))

    world.let_pass("12s")

    assert [d.payload for d in world.take(orders, 3)] == [1, 2, 3]


@pytest.mark.needs_tracker
def test_a_message_cancelled_in_time_is_never_handed_out(world: World) -> None:
    orders = world.queue()
    sent = orders.send(b"1", delay="12s")
    kept = orders.send(b"2", delay="12s")

    assert orders.cancel(sent)

    world.let_pass("13s")
    assert world.take_one(orders).message_id == kept.message_id
    assert world.is_quiet(orders)
    assert orders.dead_letters.list() == []


@pytest.mark.needs_tracker
def test_a_message_for_a_certain_time_can_be_cancelled(world: World) -> None:
    orders = world.queue()
    sent = orders.send(b"1", at=world.now() + timedelta(seconds=12))

    assert orders.cancel(sent)

    world.let_pass("13s")
    assert world.is_quiet(orders)


@pytest.mark.needs_tracker
def test_a_cancel_comes_too_late_for_what_is_due(world: World) -> None:
    orders = world.queue()
    sent = orders.send(b"1", delay="11s")
    world.let_pass("11s")

    assert not orders.cancel(sent)

    assert world.take_one(orders).message_id == sent.message_id


@pytest.mark.needs_tracker
def test_a_second_cancel_says_the_same(world: World) -> None:
    orders = world.queue()
    sent = orders.send(b"1", delay="12s")
    orders.cancel(sent)

    assert orders.cancel(sent)


@pytest.mark.needs_tracker
@pytest.mark.parametrize("delay", [None, "1s"])
def test_what_was_not_parked_cannot_be_cancelled(world: World, delay: str | None) -> None:
    orders = world.queue()
    sent = orders.send(b"1", delay=delay)

    assert not orders.cancel(sent)

    world.let_pass("1s")
    assert world.take_one(orders).message_id == sent.message_id


@pytest.mark.needs_tracker
def test_a_delayed_message_survives_those_who_were_to_take_it(world: World) -> None:
    orders = world.queue()
    orders.send(b"1", delay="12s")
    orders.close()

    world.let_pass("12s")

    assert world.take_one(world.reconnect().queue(orders.name)).payload == b"1"
