"""Retries: again after a while, counted, at most max_attempts times."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

import marq
from tests.conformance.world import World

pytestmark = pytest.mark.needs_tracker


def test_retry_delivers_again_at_once(world: World) -> None:
    orders = world.queue()
    sent = orders.send(b"1")

    world.take_one(orders).retry().result(world.patience_s)

    again = world.take_one(orders)
    assert (again.message_id, again.attempt) == (sent.message_id, 2)


@pytest.mark.parametrize("after", ["1s", "12s"])
def test_retry_after_a_while_is_never_early(world: World, after: str) -> None:
    orders = world.queue()
    orders.send(b"1")
    delivery = world.take_one(orders)
    asked = world.now()

    delivery.retry(after=after).result(world.patience_s)

    due = asked + timedelta(seconds=float(after.removesuffix("s")))
    assert world.is_quiet_before(orders, due)
    world.let_pass(after)
    world.take_one(orders)
    assert world.now() >= due


def test_a_retried_message_does_not_hold_the_others_up(world: World) -> None:
    orders = world.queue(partitions=1)
    orders.send_many([b"1", b"2"])
    world.take_one(orders).retry(after="5s").result(world.patience_s)

    assert world.take_one(orders).payload == b"2"


def test_a_retry_that_waits_is_voided_by_a_purge(world: World) -> None:
    orders = world.queue()
    orders.send(b"1")
    world.take_one(orders).retry(after="1s").result(world.patience_s)

    orders.purge()

    world.let_pass("1500ms")
    assert world.is_quiet(orders)


def test_a_message_that_expires_while_it_waits_for_its_retry_is_a_dead_letter(world: World) -> None:
    orders = world.joined_queue()
    orders.send(b"1", ttl="5s")
    world.take_one(orders).retry(after="6s").result(world.patience_s)

    world.let_pass("6s")

    assert world.is_quiet(orders)
    letter = world.letter(orders)
    assert (letter.reason, letter.attempts) == ("expired: its ttl was over", 1)


def test_a_letter_tells_of_every_attempt_and_why_it_was_retried(world: World) -> None:
    orders = world.queue(max_attempts=3)
    orders.send(b"1")

    for number in range(3):
        delivery = world.take_one(orders)
        delivery.retry(after="200ms", reason=f"no {number}").result(world.patience_s)
        world.let_pass("200ms")

    history = [(past.attempt, past.reason) for past in world.letter(orders).history]
    assert history == [(1, "no 0"), (2, "no 1"), (3, "no 2")]


def test_what_is_given_back_after_a_retry_keeps_its_attempt_and_its_history(world: World) -> None:
    orders = world.queue(max_attempts=2)
    orders.send(b"1")
    world.take_one(orders).retry(reason="busy").result(world.patience_s)
    again = world.take_one(orders)

    again.give_back().result(world.patience_s)

    last = world.take_one(orders)
    assert last.attempt == 2
    last.reject("no").result(world.patience_s)
    history = [(past.attempt, past.reason) for past in world.letter(orders).history]
    assert history == [(1, "busy"), (2, "no")]


def test_a_short_retry_outlives_the_worker_it_waits_in(world: World) -> None:
    orders = world.queue(lease="10s")
    orders.send(b"1")
    world.take_one(orders).retry(after="5s").result(world.patience_s)

    world.crash_workers()

    world.let_pass("5s")
    assert world.is_quiet(orders), "it waited in the worker, and is leased to it"
    world.let_pass("10s")
    assert world.take_one(orders).attempt == 2


def test_a_short_retry_of_a_worker_that_was_away_for_too_long_is_delivered_once(
    world: World,
) -> None:
    orders = world.queue(lease="1s", max_attempts=9)
    orders.send(b"1")
    world.take_one(orders).retry(after="1s").result(world.patience_s)

    world.let_pass("3s")

    assert world.take_one(orders, lease="30s").attempt == 2
    assert world.is_quiet(orders)


def test_a_retry_that_does_not_say_when_waits_as_the_queue_says(world: World) -> None:
    orders = world.queue(backoff=("2s", "2s"))
    orders.send(b"1")
    delivery = world.take_one(orders)
    asked = world.now()

    delivery.retry(None, reason="busy").result(world.patience_s)

    due = asked + timedelta(seconds=2)
    assert world.is_quiet_before(orders, due)
    world.let_pass("2s")
    world.take_one(orders)
    assert world.now() >= due


def test_the_backoff_doubles_from_attempt_to_attempt(world: World) -> None:
    orders = world.queue(backoff=("1s", "10s"))
    orders.send(b"1")
    world.take_one(orders).retry(None).result(world.patience_s)
    world.let_pass("1250ms")
    second = world.take_one(orders)
    asked = world.now()

    second.retry(None).result(world.patience_s)

    due = asked + timedelta(seconds=2)
    world.let_pass("1s")
    assert world.is_quiet_before(orders, due)
    world.let_pass("1s")
    world.take_one(orders)
    assert world.now() >= due


def test_leases_that_run_out_again_back_off(world: World) -> None:
    orders = world.queue(lease="1s", backoff=("2s", "2s"))
    orders.send(b"1")
    world.take_one(orders)
    world.let_pass("1500ms")
    second = world.take_one(orders)  # the first copy comes at the deadline
    world.let_pass("1500ms")

    due = second.deadline + timedelta(seconds=2)
    assert world.is_quiet_before(orders, due)

    world.let_pass("3s")
    assert world.take_one(orders).attempt == 3
    assert world.now() >= due


@pytest.mark.parametrize("most", [1, 3])
def test_a_message_is_delivered_exactly_max_attempts_times_and_dies_once(
    world: World, most: int
) -> None:
    orders = world.queue(max_attempts=most)
    sent = orders.send(b"1")

    for attempt in range(1, most + 1):
        delivery = world.take_one(orders)
        assert delivery.attempt == attempt
        delivery.retry(after="0s").result(world.patience_s)

    letter = world.letter(orders)
    assert (letter.message_id, letter.attempts) == (sent.message_id, most)
    assert letter.reason == f"max attempts ({most}) reached"
    assert world.is_quiet(orders)
    world.let_pass("2s")
    assert len(orders.dead_letters.list()) == 1


def test_the_last_attempt_dies_at_once_however_long_its_retry_was_to_wait(world: World) -> None:
    orders = world.queue(max_attempts=1)
    orders.send(b"1")

    world.take_one(orders).retry(after="1h").result(world.patience_s)

    assert world.letter(orders).attempts == 1


def test_a_message_nobody_settles_dies_of_its_leases(world: World) -> None:
    orders = world.queue(lease="1s", max_attempts=2, backoff=("0s", "0s"))
    orders.send(b"1")

    for _ in range(2):
        world.take_one(orders)
        world.let_pass("1500ms")

    letter = world.letter(orders)
    assert letter.reason == "max attempts (2) reached: lease expired"
    assert [(past.attempt, past.reason) for past in letter.history] == [
        (1, "lease expired"),
        (2, "lease expired"),
    ]


def test_every_third_message_is_never_acked(world: World) -> None:
    orders = world.queue(lease="1s", max_attempts=4, backoff=("0s", "0s"))
    orders.send_many(range(7))
    delivered: Counter[int] = Counter()

    def work() -> None:
        for delivery in orders.receive(100, world.doubt_s):
            delivered[delivery.payload] += 1
            if delivery.payload % 3:
                try:
                    delivery.ack().result(world.patience_s)
                except marq.LeaseLost:  # a busy machine: it comes again, and counts then
                    delivered[delivery.payload] -= 1

    while sum(delivered.values()) < 3 * 4 + 4:
        work()
        world.let_pass("1200ms")

    letters = world.letters(orders, 3)
    work()
    assert delivered == {0: 4, 1: 1, 2: 1, 3: 4, 4: 1, 5: 1, 6: 4}
    assert Counter(letter.payload for letter in letters) == {0: 1, 3: 1, 6: 1}
    assert {letter.attempts for letter in letters} == {4}
