"""TTL: what is too old is buried or dropped, not handed out."""

from __future__ import annotations

import pytest

from tests.conformance.world import World

pytestmark = pytest.mark.needs_tracker


def test_a_message_is_handed_out_before_its_ttl_is_over(world: World) -> None:
    orders = world.queue()
    orders.send(b"1", ttl="20s")

    world.let_pass("1s")

    assert world.take_one(orders).payload == b"1"


def test_an_expired_message_is_a_dead_letter_that_was_never_delivered(world: World) -> None:
    orders = world.queue()
    orders.send(b"1", ttl="1s")
    orders.send(b"2")

    world.let_pass("1500ms")

    assert world.take_one(orders).payload == b"2"
    assert world.is_quiet(orders)
    letter = world.letter(orders)
    assert (letter.payload, letter.attempts) == (b"1", 0)
    assert letter.reason.startswith("expired")


def test_the_queue_s_ttl_is_for_every_message(world: World) -> None:
    orders = world.queue(ttl="1s")
    orders.send_many([b"1", b"2"])

    world.let_pass("1500ms")

    assert world.is_quiet(orders)
    assert len(world.letters(orders, 2)) == 2


@pytest.mark.parametrize(("own", "whole"), [("1s", "1h"), ("1h", "1s")])
def test_of_two_ttls_the_shorter_counts(world: World, own: str, whole: str) -> None:
    orders = world.queue(ttl=whole)
    orders.send(b"1", ttl=own)

    world.let_pass("1500ms")

    assert world.is_quiet(orders)


def test_a_queue_without_dead_letters_drops_what_expired(world: World) -> None:
    orders = world.queue(dead_letter=False)
    orders.send(b"1", ttl="1s")

    world.let_pass("1500ms")

    assert world.is_quiet(orders)
    assert orders.dead_letters.list() == []


def test_a_copy_expires_when_the_message_would_have(world: World) -> None:
    orders = world.joined_queue(lease="2s")
    orders.send(b"1", ttl="4s")
    world.take_one(orders).retry(after="4s").result(world.patience_s)

    world.let_pass("4s")

    def buried() -> bool:
        assert world.is_quiet(orders)
        return bool(orders.dead_letters.list())

    world.wait_until(buried)
    assert world.letter(orders).attempts == 1


def test_a_message_in_hand_does_not_expire(world: World) -> None:
    orders = world.joined_queue()
    orders.send(b"1", ttl="4s")
    delivery = world.take_one(orders)

    world.let_pass("5s")
    delivery.ack().result(world.patience_s)

    assert orders.dead_letters.list() == []


def test_a_redriven_message_s_own_ttl_is_over_for_good(world: World) -> None:
    orders = world.queue()
    orders.send(b"1", ttl="1s")
    world.let_pass("1500ms")
    assert world.is_quiet(orders)
    world.letter(orders)

    orders.dead_letters.redrive()

    assert world.take_one(orders).payload == b"1"
