"""Receiving: every message to one consumer, acked alone, in any order."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

import marq
from tests.conformance.world import World


def test_messages_are_acked_in_any_order(world: World) -> None:
    orders = world.queue(partitions=1)
    orders.send_many([b"1", b"2", b"3", b"4"])
    deliveries = world.take(orders, 4)

    for n in (2, 0, 3, 1):
        deliveries[n].ack().result(world.patience_s)

    assert world.is_quiet(orders)


@pytest.mark.needs_tracker
def test_an_ack_is_for_one_message_only(world: World) -> None:
    orders = world.queue(partitions=1, lease="1s")
    orders.send_many([b"1", b"2", b"3"])
    deliveries = world.take(orders, 3)
    deliveries[2].ack().result(world.patience_s)

    world.let_pass("2s")

    assert {d.payload for d in world.take(orders, 2)} == {b"1", b"2"}
    assert world.is_quiet(orders)


def test_a_slow_message_does_not_block_the_ones_behind_it(world: World) -> None:
    orders = world.queue(partitions=1)
    orders.send_many([b"slow", b"2", b"3"])
    slow = world.take_one(orders)

    for delivery in world.take(orders, 2):
        delivery.ack().result(world.patience_s)

    slow.ack().result(world.patience_s)
    assert world.is_quiet(orders)


def test_an_ack_may_come_from_another_thread(world: World) -> None:
    orders = world.queue()
    orders.send(b"")
    delivery = world.take_one(orders)

    thread = threading.Thread(target=lambda: delivery.ack().result(world.patience_s))
    thread.start()
    thread.join()

    assert delivery.settled


def test_an_ack_can_be_awaited(world: World) -> None:
    orders = world.queue()
    orders.send(b"")
    delivery = world.take_one(orders)

    async def ack() -> None:
        await delivery.ack()

    asyncio.run(ack())
    assert world.is_quiet(orders)


def test_receive_hands_out_at_most_max(world: World) -> None:
    orders = world.queue()
    orders.send_many([b""] * 5)

    assert len(world.take(orders)) == 1
    assert 1 <= len(orders.receive(max=3, wait="5s")) <= 3


def test_receive_without_wait_returns_at_once_when_there_is_nothing(world: World) -> None:
    orders = world.queue()

    assert orders.receive() == []


def test_receive_waits_no_longer_than_it_is_told(world: World) -> None:
    orders = world.queue()
    orders.receive()
    started = time.monotonic()

    assert orders.receive(wait="100ms") == []

    assert 0.1 <= time.monotonic() - started < 20


def test_receive_returns_as_soon_as_a_message_comes(world: World) -> None:
    orders = world.queue()
    orders.receive()
    found: list[marq.Delivery[bytes]] = []
    receiver = threading.Thread(target=lambda: found.extend(orders.receive(wait="60s")))
    receiver.start()

    orders.send(b"1")
    receiver.join(world.patience_s)

    assert [d.payload for d in found] == [b"1"]


def test_receive_returns_the_first_messages_without_waiting_for_max(world: World) -> None:
    orders = world.queue()
    orders.send(b"1")
    started = time.monotonic()

    found = orders.receive(max=10, wait="60s")

    assert len(found) == 1
    assert time.monotonic() - started < 30


def test_a_lease_may_be_given_for_one_call(world: World) -> None:
    orders = world.queue(lease="30s")
    orders.send_many([b"1", b"2"])
    before = world.now()

    long = world.take_one(orders, lease="10m")
    short = world.take_one(orders)

    assert long.deadline - before >= timedelta(minutes=10)
    assert short.deadline - before >= timedelta(seconds=30)
    assert long.deadline - short.deadline > timedelta(minutes=5)


def test_deliveries_come_to_asyncio_as_they_are_sent(world: World) -> None:
    orders = world.queue()
    orders.send_many([b"1", b"2", b"3"])

    async def consume() -> set[bytes]:
        found: set[bytes] = set()
        async for delivery in orders.deliveries():
            await delivery.ack()
            found.add(delivery.payload)
            if len(found) == 3:
                return found
        raise AssertionError("deliveries never end")

    assert asyncio.run(asyncio.wait_for(consume(), world.patience_s + 60)) == {b"1", b"2", b"3"}
    assert world.is_quiet(orders)


def test_a_cancelled_async_consumer_keeps_no_message(world: World) -> None:
    orders = world.queue()

    async def give_up() -> None:
        deliveries: AsyncIterator[marq.Delivery[bytes]] = orders.deliveries()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(deliveries), 0.05)
        orders.send(b"1")

    asyncio.run(give_up())

    assert world.take_one(orders).attempt == 1


def test_what_is_given_back_is_someone_else_s_at_once_and_no_attempt(world: World) -> None:
    orders = world.queue(max_attempts=1)
    sent = orders.send(b"1", key="k")

    for _ in range(3):
        world.take_one(orders).give_back().result(world.patience_s)

    delivery = world.take_one(orders)
    assert (delivery.message_id, delivery.attempt) == (sent.message_id, 1)
    assert (delivery.payload, delivery.key) == (b"1", b"k")
    assert world.is_quiet(orders)


def test_two_consumers_share_a_queue_and_no_message_reaches_both(world: World) -> None:
    orders = world.queue()
    same = world.reconnect().queue(orders.name)
    orders.send_many([f"{n}" for n in range(20)])

    found: list[str] = []

    def take_turns() -> bool:
        found.extend(d.payload for d in orders.receive(3, "100ms"))
        found.extend(d.payload for d in same.receive(3, "100ms"))
        return len(found) >= 20

    world.wait_until(take_turns)

    assert sorted(found) == sorted(f"{n}" for n in range(20))
    assert world.is_quiet(orders) and world.is_quiet(same)


def test_500_messages_over_two_consumers_add_up_to_exactly_500(world: World) -> None:
    orders = world.queue()
    sents = orders.send_many([b""] * 500)
    consumers = [orders, world.reconnect().queue(orders.name)]
    seen: Counter[str] = Counter()
    lock = threading.Lock()
    all_seen = threading.Event()

    def consume(queue: marq.Queue[bytes]) -> None:
        while not all_seen.is_set():
            for delivery in queue.receive(7, "100ms"):
                with lock:
                    seen[delivery.message_id] += 1
                    if len(seen) == 500:
                        all_seen.set()
                delivery.ack().result(world.patience_s)

    threads = [threading.Thread(target=consume, args=(queue,)) for queue in consumers]
    for thread in threads:
        thread.start()
    assert all_seen.wait(60)
    for thread in threads:
        thread.join()

    assert world.is_quiet(orders)
    assert seen == Counter({sent.message_id: 1 for sent in sents})


def test_two_queues_never_see_each_other_s_messages(world: World) -> None:
    orders, bills = world.queue(), world.queue()

    orders.send_many([b"order"] * 5)
    bills.send_many([b"bill"] * 5)

    assert {d.payload for d in world.take(orders, 5)} == {b"order"}
    assert {d.payload for d in world.take(bills, 5)} == {b"bill"}
    assert world.is_quiet(orders) and world.is_quiet(bills)


def test_a_queue_goes_on_where_it_was_when_its_broker_is_gone(world: World) -> None:
    orders = world.queue()
    orders.send_many([b"1", b"2"])
    world.take_one(orders).ack().result(world.patience_s)

    orders.close()
    again = world.reconnect().queue(orders.name)

    assert len(world.take(again)) == 1
    assert world.is_quiet(again)


@pytest.mark.parametrize("wait", ["0s", "50ms"])
def test_whoever_looks_in_now_and_then_gets_what_comes_in_meanwhile(
    world: World, wait: str
) -> None:
    orders = world.queue()
    assert orders.receive(1, wait) == []
    found: list[str] = []

    def look() -> bool:
        before = len(found)
        found.extend(delivery.payload for delivery in orders.receive(10, wait))
        world.let_pass("1100ms")  # so long that fetching is put off
        return len(found) > before

    for number in range(3):
        orders.send(str(number))
        world.wait_until(look)

    assert found == ["0", "1", "2"]
