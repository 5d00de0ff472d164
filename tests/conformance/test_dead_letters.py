"""Dead letters: everything that was known stays known, and nothing is stuck for good."""

from __future__ import annotations

import time

import pytest

import marq
from tests.conformance.world import World

pytestmark = pytest.mark.needs_tracker


def bury(world: World, queue: marq.Queue[object], *payloads: object) -> list[marq.Sent]:
    """Dead letters of these payloads, in this order."""
    sents = []
    for payload in payloads:
        sents.append(queue.send(payload))
        world.take_one(queue).reject(f"no {payload!r}").result(world.patience_s)
        world.wait_until(lambda: len(queue.dead_letters.list()) == len(sents))
    return sents


def test_a_rejected_message_is_a_dead_letter_with_all_that_is_known(world: World) -> None:
    orders = world.queue()
    sent = orders.send({"id": 7}, key="k", headers={"h": "v"}, message_id="order 7")
    delivery = world.take_one(orders)

    delivery.reject("no such customer").result(world.patience_s)

    letter = world.letter(orders)
    assert (letter.payload, letter.key) == ({"id": 7}, b"k")
    assert letter.headers["h"] == b"v"
    assert (letter.message_id, letter.queue) == (sent.message_id, orders.name)
    assert (letter.reason, letter.attempts) == ("no such customer", 1)
    assert letter.sent_at == delivery.sent_at <= letter.died_at <= world.now()
    assert world.is_quiet(orders)


def test_a_reject_without_a_reason_says_that_it_was_rejected(world: World) -> None:
    orders = world.queue()
    orders.send(b"")

    world.take_one(orders).reject().result(world.patience_s)

    assert world.letter(orders).reason == "rejected"


def test_the_history_tells_every_attempt_and_why_it_failed(world: World) -> None:
    orders = world.queue(max_attempts=3)
    before = world.now()
    orders.send(b"1")
    for reason in ("busy", "still busy", "down"):
        world.take_one(orders).retry(reason=reason).result(world.patience_s)

    history = world.letter(orders).history

    assert [(past.attempt, past.reason) for past in history] == [
        (1, "busy"),
        (2, "still busy"),
        (3, "down"),
    ]
    assert all(past.worker for past in history)
    assert before <= history[0].at <= history[1].at <= history[2].at <= world.now()


def test_dead_letters_are_listed_oldest_first(world: World) -> None:
    orders = world.queue()
    bury(world, orders, "a", "b", "c")

    assert [letter.payload for letter in orders.dead_letters.list()] == ["a", "b", "c"]
    assert [letter.payload for letter in orders.dead_letters.list(limit=2)] == ["a", "b"]


def test_listing_changes_nothing(world: World) -> None:
    orders = world.queue()
    bury(world, orders, "a")

    for _ in range(3):
        assert len(orders.dead_letters.list()) == 1


def test_redrive_sends_to_the_queue_again_with_attempts_from_one_and_history(
    world: World,
) -> None:
    orders = world.queue()
    sent = orders.send({"id": 7}, key="k", headers={"h": "v"})
    world.take_one(orders).reject("no").result(world.patience_s)
    world.letter(orders)

    assert orders.dead_letters.redrive() == 1

    again = world.take_one(orders)
    assert (again.message_id, again.attempt) == (sent.message_id, 1)
    assert (again.payload, again.key, again.headers["h"]) == ({"id": 7}, b"k", b"v")
    assert not [name for name in again.headers if name.startswith("__dlq")]
    assert orders.dead_letters.list() == []
    again.reject("no again").result(world.patience_s)
    assert [past.reason for past in world.letter(orders).history] == ["no", "no again"]


def test_redrive_takes_the_oldest_up_to_its_limit(world: World) -> None:
    orders = world.queue()
    bury(world, orders, "a", "b", "c")

    assert orders.dead_letters.redrive(limit=2) == 2

    assert {d.payload for d in world.take(orders, 2)} == {"a", "b"}
    assert [letter.payload for letter in orders.dead_letters.list()] == ["c"]


def test_redrive_takes_those_asked_for(world: World) -> None:
    orders = world.queue()
    bury(world, orders, "a", "b", "c")

    done = orders.dead_letters.redrive(where=lambda letter: letter.payload == "b")

    assert done == 1
    assert world.take_one(orders).payload == "b"
    assert [letter.payload for letter in orders.dead_letters.list()] == ["a", "c"]


def test_the_limit_counts_those_asked_for_only(world: World) -> None:
    orders = world.queue()
    bury(world, orders, "a", "b", "c")

    done = orders.dead_letters.redrive(limit=1, where=lambda letter: letter.payload != "a")

    assert done == 1
    assert world.take_one(orders).payload == "b"


def test_redrive_keeps_to_its_rate(world: World) -> None:
    orders = world.queue()
    bury(world, orders, "a", "b", "c")
    started = time.monotonic()

    orders.dead_letters.redrive(rate=20)

    assert time.monotonic() - started >= 2 / 20


def test_what_dies_again_while_it_is_redriven_is_not_sent_twice(world: World) -> None:
    orders = world.queue()
    bury(world, orders, "a", "b")

    def reject_the_first_meanwhile(letter: marq.DeadLetter) -> bool:
        if letter.payload == "b":
            world.take_one(orders).reject("again").result(world.patience_s)
            world.wait_until(lambda: len(orders.dead_letters.list()) == 2)
        return True

    assert orders.dead_letters.redrive(rate=10, where=reject_the_first_meanwhile) == 2


def test_redrive_after_a_purge_hands_the_message_out(world: World) -> None:
    orders = world.queue()
    bury(world, orders, "a")
    orders.purge()

    orders.dead_letters.redrive()

    assert world.take_one(orders).payload == "a"


def test_redrive_gives_an_expired_message_its_queue_s_whole_ttl_again(world: World) -> None:
    orders = world.queue(ttl="4s")
    orders.send(b"1")
    world.let_pass("5s")
    assert world.is_quiet(orders)
    world.letter(orders)

    orders.dead_letters.redrive()

    assert world.take_one(orders).payload == b"1"


def test_a_redriven_message_has_all_its_attempts(world: World) -> None:
    orders = world.queue(max_attempts=2)
    bury(world, orders, "a")
    orders.dead_letters.redrive()

    world.take_one(orders).retry().result(world.patience_s)

    assert world.take_one(orders).attempt == 2


def test_discard_removes_for_good(world: World) -> None:
    orders = world.queue()
    bury(world, orders, "a", "b", "c")

    assert orders.dead_letters.discard(where=lambda letter: letter.payload == "b") == 1
    assert orders.dead_letters.discard(limit=1) == 1

    assert [letter.payload for letter in orders.dead_letters.list()] == ["c"]
    assert orders.dead_letters.redrive() == 1
    assert orders.dead_letters.list() == []


def test_dead_letters_are_received_like_a_queue_s_messages(world: World) -> None:
    orders = world.queue()
    bury(world, orders, "a", "b")

    for delivery in world.take(orders.dead_letters, 2):
        delivery.ack().result(world.patience_s)

    assert orders.dead_letters.list() == []


def test_a_dead_letter_in_someone_s_hands_is_not_redriven(world: World) -> None:
    orders = world.queue()
    bury(world, orders, "a")
    world.take_one(orders.dead_letters)

    assert orders.dead_letters.list() == []
    assert orders.dead_letters.redrive() == 0


def test_a_dead_letter_that_is_not_settled_comes_back_to_the_dead_letters(world: World) -> None:
    orders = world.queue()
    bury(world, orders, "a")
    for attempt in range(1, 8):
        delivery = world.take_one(orders.dead_letters)
        assert delivery.attempt == attempt
        delivery.retry().result(world.patience_s)

    assert world.letter(orders).payload == "a"


def test_a_purge_of_the_dead_letters_discards_them(world: World) -> None:
    orders = world.queue()
    bury(world, orders, "a", "b")

    orders.dead_letters.purge()

    assert orders.dead_letters.list() == []
    assert world.names(world.broker) == [orders.name]
    assert orders.dead_letters.name not in world.broker.queues()


def test_a_plain_record_among_the_dead_letters_is_redriven_to_its_queue(world: World) -> None:
    orders = world.queue()
    orders.dead_letters.send(b"by hand")

    assert [letter.queue for letter in world.letters(orders)] == [orders.name]
    assert orders.dead_letters.redrive() == 1

    assert world.take_one(orders).payload == b"by hand"


def test_a_queue_without_dead_letters_drops_what_cannot_be_delivered(world: World) -> None:
    orders = world.queue(dead_letter=False, max_attempts=1)
    orders.send_many([b"rejected", b"spent"])
    for delivery in world.take(orders, 2):
        settle = delivery.reject if delivery.payload == b"rejected" else delivery.retry
        settle().result(world.patience_s)

    world.let_pass("1s")

    assert world.is_quiet(orders)
    assert orders.dead_letters.list() == []


def test_the_dead_letters_of_two_queues_are_apart(world: World) -> None:
    orders, bills = world.queue(), world.queue()
    bury(world, orders, "order")
    bury(world, bills, "bill")

    assert [letter.payload for letter in orders.dead_letters.list()] == ["order"]
    assert [letter.payload for letter in bills.dead_letters.list()] == ["bill"]


def test_dead_letters_outlive_their_queue_but_are_not_redriven_into_nothing(world: World) -> None:
    orders = world.queue()
    bury(world, orders, "a")
    world.broker.delete_queue(orders.name)

    with pytest.raises(marq.ConfigError, match="create it again first"):
        orders.dead_letters.redrive()

    again = world.broker.queue(orders.name)
    assert [letter.payload for letter in again.dead_letters.list()] == ["a"]
