"""Queues are declared, changed, purged, paused and deleted."""

from __future__ import annotations

import contextlib
import threading
from datetime import timedelta
from typing import Any

import pytest

import marq
from tests.conformance.world import World


def test_a_queue_opened_without_options_has_the_defaults(world: World) -> None:
    definition = world.queue().definition

    assert (definition.lease_ms, definition.max_attempts) == (30_000, 5)
    assert definition.backoff_ms == (1_000, 300_000)
    assert (definition.dead_letter, definition.ttl_ms) == (True, None)
    assert (definition.partitions, definition.retention_ms) == (4, 0)


def test_the_same_options_again_change_nothing(world: World) -> None:
    options: dict[str, Any] = {"lease": "1m", "max_attempts": 3, "backoff": ("2s", "1m")}
    orders = world.queue(**options)
    orders.send(b"1")

    again = world.reconnect().queue(orders.name, **options)

    assert again.definition == orders.definition
    assert world.take_one(again).payload == b"1"


def test_the_same_duration_written_in_another_way_is_the_same_option(world: World) -> None:
    orders = world.queue(lease="1m")

    assert world.broker.queue(orders.name, lease=60).name == orders.name


def test_opening_without_options_takes_the_queue_as_it_is(world: World) -> None:
    orders = world.queue(lease="1m")

    assert world.reconnect().queue(orders.name).definition.lease_ms == 60_000


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        ({"lease": "2m"}, "lease is '1m', not '2m'"),
        ({"max_attempts": 7}, "max_attempts is 5, not 7"),
        ({"backoff": ("2s", "5m")}, r"backoff is \('1s', '5m'\), not \('2s', '5m'\)"),
        ({"dead_letter": False}, "dead_letter is True, not False"),
        ({"ttl": "1h"}, "ttl is None, not '1h'"),
        ({"partitions": 8}, "partitions is 4, not 8"),
    ],
)
def test_different_options_are_refused_with_their_difference(
    world: World, options: dict[str, Any], difference: str
) -> None:
    orders = world.queue(lease="1m")

    with pytest.raises(marq.ConfigError, match=difference) as caught:
        world.broker.queue(orders.name, **options)

    assert "queue.update(...)" in str(caught.value)
    assert orders.definition.lease_ms == 60_000


def test_queues_lists_all_names(world: World) -> None:
    names = sorted([world.queue().name, world.queue().name])

    found = world.reconnect().queues()

    assert [name for name in found if name in names] == names


def test_an_update_counts_for_everyone_from_now_on(world: World) -> None:
    orders = world.queue(lease="30s")
    same = world.reconnect().queue(orders.name)
    orders.send(b"1")

    orders.update(lease="10m", max_attempts=9)

    world.let_pass("2s")  # others follow the catalog once a second
    before = world.now()
    assert (world.take_one(same).deadline - before).total_seconds() > 500
    assert same.definition.max_attempts == 9


def test_an_update_leaves_what_it_does_not_name(world: World) -> None:
    orders = world.queue(lease="1m", ttl="1h")

    orders.update(ttl=None)

    assert (orders.definition.lease_ms, orders.definition.ttl_ms) == (60_000, None)


def test_a_lease_in_hand_stays_as_it_was_when_the_queue_changes(world: World) -> None:
    orders = world.queue(lease="30s")
    orders.send(b"1")
    delivery = world.take_one(orders)
    before = delivery.deadline

    orders.update(lease="10m")

    # It is estimated until the log has told when it took the hand-out: moments, not minutes.
    assert delivery.deadline - before < timedelta(minutes=1)


@pytest.mark.parametrize("option", ["partitions", "lane", "priorities"])
def test_what_cannot_change_is_refused(world: World, option: str) -> None:
    orders = world.queue()

    with pytest.raises(marq.ConfigError, match=f"{option} cannot change"):
        orders.update(**{option: 2})  # type: ignore[arg-type]


def test_a_paused_queue_hands_nothing_out_until_it_is_resumed(world: World) -> None:
    orders = world.queue()
    same = world.reconnect().queue(orders.name)

    orders.pause()
    world.wait_until(lambda: same.definition.paused)
    orders.send(b"1")
    assert world.is_quiet(orders) and world.is_quiet(same)

    orders.resume()
    assert world.take_one(same).payload == b"1"


def test_what_is_in_hand_is_acked_while_the_queue_is_paused(world: World) -> None:
    orders = world.queue()
    orders.send(b"1")
    delivery = world.take_one(orders)
    orders.pause()

    delivery.ack().result(world.patience_s)

    orders.resume()
    assert world.is_quiet(orders)


def test_resuming_wakes_whoever_waits(world: World) -> None:
    orders = world.queue()
    orders.pause()
    orders.send(b"1")
    found: list[marq.Delivery[bytes]] = []
    receiver = threading.Thread(target=lambda: found.extend(orders.receive(wait="60s")))
    receiver.start()

    orders.resume()
    receiver.join(world.patience_s)

    assert len(found) == 1


def test_a_purge_voids_what_is_ready(world: World) -> None:
    orders = world.queue()
    orders.send_many([b"old"] * 10)

    orders.purge()
    orders.send(b"new")

    assert world.take_one(orders).payload == b"new"
    assert world.is_quiet(orders)


@pytest.mark.needs_tracker
@pytest.mark.parametrize("settle", ["nothing", "retry", "ack"])
def test_a_purge_voids_what_is_in_flight(world: World, settle: str) -> None:
    orders = world.queue(lease="1s")
    orders.send(b"old")
    delivery = world.take_one(orders)

    orders.purge()
    if settle != "nothing":
        with contextlib.suppress(marq.LeaseLost):  # late or not, it is void
            getattr(delivery, settle)().result(world.patience_s)

    world.let_pass("2s")
    assert world.is_quiet(orders)
    assert orders.dead_letters.list() == []


@pytest.mark.needs_tracker
@pytest.mark.parametrize("delay", ["6s", "12s"])
def test_a_purge_voids_what_is_delayed(world: World, delay: str) -> None:
    orders, bills = world.joined_queue(), world.queue()
    orders.send(b"old", delay=delay)
    bills.send(b"another queue's", delay=delay)
    assert world.is_quiet(orders)

    orders.purge()

    world.let_pass("12s")
    assert world.is_quiet(orders)
    assert world.take_one(bills).payload == b"another queue's"


@pytest.mark.needs_tracker
@pytest.mark.parametrize("after", ["1s", "12s"])
def test_a_purge_voids_what_waits_for_its_retry(world: World, after: str) -> None:
    orders = world.queue()
    orders.send(b"old")
    world.take_one(orders).retry(after=after).result(world.patience_s)

    orders.purge()

    world.let_pass("13s")
    assert world.is_quiet(orders)


@pytest.mark.needs_tracker
def test_a_purge_leaves_dead_letters_alone(world: World) -> None:
    orders = world.queue()
    orders.send(b"1")
    world.take_one(orders).reject().result(world.patience_s)
    world.letter(orders)

    orders.purge()

    assert len(orders.dead_letters.list()) == 1


def test_a_deleted_queue_is_gone_for_everyone(world: World) -> None:
    orders = world.queue()
    other = world.reconnect()
    other.queue(orders.name)

    world.broker.delete_queue(orders.name)

    assert orders.name not in other.queues()
    with pytest.raises(marq.ConfigError, match="it was deleted"):
        orders.send(b"1")
    with pytest.raises(marq.ConfigError, match="it was deleted"):
        orders.receive()
    with pytest.raises(marq.ConfigError, match="it was deleted"):
        orders.update(lease="1m")


def test_a_queue_that_is_not_there_cannot_be_deleted(world: World) -> None:
    with pytest.raises(marq.ConfigError, match="there is no queue 'nothing'"):
        world.broker.delete_queue("nothing")


def test_a_queue_created_again_is_another_one(world: World) -> None:
    orders = world.queue(partitions=1, lease="1m")
    orders.send_many([b"old"] * 3)
    world.take_one(orders)

    world.broker.delete_queue(orders.name)
    again = world.broker.queue(orders.name, partitions=2)

    assert (again.definition.partitions, again.definition.lease_ms) == (2, 30_000)
    assert world.is_quiet(again)
    again.send(b"new")
    assert world.take_one(again).payload == b"new"


@pytest.mark.needs_tracker
@pytest.mark.parametrize("settle", ["nothing", "retry", "ack", "reject"])
def test_an_old_delivery_never_touches_a_message_of_the_new_queue(
    world: World, settle: str
) -> None:
    orders = world.queue(partitions=1, lease="1s")
    orders.send(b"old")
    old = world.take_one(orders)
    world.broker.delete_queue(orders.name)
    again = world.broker.queue(orders.name, partitions=1)
    again.send(b"new")  # at the offset the old one had

    if settle != "nothing":
        with contextlib.suppress(marq.LeaseLost):  # late or not, it is about the old one
            getattr(old, settle)().result(world.patience_s)
    world.let_pass("2s")

    new = world.take_one(again)
    assert (new.payload, new.attempt) == (b"new", 1)
    assert world.is_quiet(again)


@pytest.mark.needs_tracker
@pytest.mark.parametrize("delay", ["6s", "12s"])
def test_what_was_delayed_for_the_old_queue_never_reaches_the_new_one(
    world: World, delay: str
) -> None:
    orders = world.joined_queue()
    orders.send(b"old", delay=delay)
    assert world.is_quiet(orders)
    world.broker.delete_queue(orders.name)
    again = world.broker.queue(orders.name)
    again.send(b"new", delay=delay)

    world.let_pass("12s")

    assert world.take_one(again).payload == b"new"
    assert world.is_quiet(again)


def test_many_queues_are_declared_together_and_those_that_are_there_stay(world: World) -> None:
    first = world.queue(lease="7s", partitions=2)
    first.send(b"1")
    more = [f"{first.name}-{number}" for number in range(5)]

    found = world.broker.declare([first.name, *more, more[0]], lease="7s", partitions=2)

    assert [queue.name for queue in found] == [first.name, *more, more[0]]
    assert {queue.definition.lease_ms for queue in found} == {7_000}
    again = world.reconnect()
    assert set(more) <= set(again.queues())
    assert world.take_one(first).payload == b"1"
    for queue in found[1:4]:
        again.queue(queue.name).send(b"2")
        assert world.take_one(queue).payload == b"2"
    for name in more:
        again.delete_queue(name)


def test_of_queues_declared_together_none_may_differ_or_be_too_close_to_another(
    world: World,
) -> None:
    orders = world.queue(lease="7s")

    with pytest.raises(marq.ConfigError, match="differs: lease"):
        world.broker.declare([f"{orders.name}-new", orders.name], lease="8s")
    with pytest.raises(marq.ConfigError, match="too close"):
        world.broker.declare([f"{orders.name}.a", f"{orders.name}_a"])
    with pytest.raises(marq.ConfigError, match="marq uses itself"):
        world.broker.declare([f"{orders.name}.sub"])
    assert f"{orders.name}.a" not in world.broker.queues()
    world.broker.delete_queue(f"{orders.name}-new")


def test_a_queue_that_was_deleted_is_declared_anew(world: World) -> None:
    orders = world.queue()
    orders.send(b"old")
    world.broker.delete_queue(orders.name)

    (again,) = world.broker.declare([orders.name])
    again.send(b"new")

    assert world.take_one(again).payload == b"new"
