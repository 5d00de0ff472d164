"""Handlers and workers: return = ack, exception = retry, and nothing is lost on the way out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import msgspec
import pytest

import marq
from tests.conformance.world import World


class Order(msgspec.Struct):
    id: int


def get(world: World, seen: SimpleQueue[Any], number: int = 1) -> list[Any]:
    """So many things, as soon as they were put there."""
    return [seen.get(timeout=world.patience_s) for _ in range(number)]


def get_in_time(world: World, seen: SimpleQueue[Any]) -> Any:
    """The next thing that is put there as time goes by."""

    def came() -> bool:
        world.let_pass("100ms")
        return not seen.empty()

    world.wait_until(came)
    return seen.get()


def test_what_a_handler_returns_from_is_acked(world: World) -> None:
    orders = world.queue()
    seen: SimpleQueue[bytes] = SimpleQueue()

    @orders.handler()
    def handle(payload: bytes) -> None:
        seen.put(payload)

    orders.send_many([b"1", b"2", b"3"])
    with world.broker.worker(orders):
        assert sorted(get(world, seen, 3)) == [b"1", b"2", b"3"]

    assert world.is_quiet(orders)
    assert seen.empty()


def test_a_handler_is_given_the_payload_and_the_delivery(world: World) -> None:
    orders = world.queue()
    seen: SimpleQueue[tuple[Order, marq.Delivery[Order]]] = SimpleQueue()

    @orders.handler()
    def handle(order: Order, delivery: marq.Delivery[Order]) -> None:
        seen.put((order, delivery))

    sent = orders.send(Order(7))
    with world.broker.worker(orders):
        ((order, delivery),) = get(world, seen)

    assert order == Order(7)
    assert (delivery.message_id, delivery.attempt) == (sent.message_id, 1)


def test_a_handler_may_take_the_delivery_first_or_alone(world: World) -> None:
    swapped, alone = world.queue(), world.queue()
    seen: SimpleQueue[tuple[Any, ...]] = SimpleQueue()

    @swapped.handler()
    def handle(delivery: marq.Delivery[Order], order: Order) -> None:
        seen.put((delivery.attempt, order))

    @alone.handler()
    def handle_alone(delivery: marq.Delivery[Order]) -> None:
        seen.put((delivery.attempt, delivery.payload))

    swapped.send(Order(7))
    with world.broker.worker(swapped):
        assert get(world, seen) == [(1, Order(7))]
    alone.send(Order(8))
    with world.broker.worker(alone):
        assert get(world, seen) == [(1, Order(8))]


def test_the_handler_s_annotation_says_what_payloads_become(world: World) -> None:
    orders = world.queue()
    seen: SimpleQueue[Order] = SimpleQueue()

    @orders.handler()
    def handle(order: Order) -> None:
        seen.put(order)

    orders.send({"id": 7})
    with world.broker.worker(orders):
        assert get(world, seen) == [Order(7)]


def test_without_an_annotation_it_is_the_queue_s_type(world: World) -> None:
    orders = world.queue(type=Order)
    seen: SimpleQueue[Order] = SimpleQueue()
    orders.handler()(seen.put)

    orders.send({"id": 7})
    with world.broker.worker(orders):
        assert get(world, seen) == [Order(7)]


def test_an_async_handler_runs_many_at_once_on_one_loop(world: World) -> None:
    orders = world.queue()
    seen: SimpleQueue[int] = SimpleQueue()
    started: list[str] = []

    @orders.handler(concurrency=5)
    async def handle(payload: str) -> None:
        started.append(payload)
        while len(started) < 5:  # none ends before all have begun
            await asyncio.sleep(0)
        seen.put(threading.get_ident())

    orders.send_many(["1", "2", "3", "4", "5"])
    with world.broker.worker(orders):
        threads = get(world, seen, 5)

    assert len(set(threads)) == 1
    assert world.is_quiet(orders)


def test_a_batch_handler_is_handed_lists(world: World) -> None:
    orders = world.queue()
    seen: SimpleQueue[tuple[Order, str]] = SimpleQueue()

    @orders.handler(batch=True)
    def handle(found: list[Order], deliveries: list[marq.Delivery[Order]]) -> None:
        for order, delivery in zip(found, deliveries, strict=True):
            seen.put((order, delivery.message_id))

    sents = orders.send_many([Order(1), Order(2), Order(3)])
    with world.broker.worker(orders):
        handled = get(world, seen, 3)

    assert sorted(order.id for order, _ in handled) == [1, 2, 3]
    assert {message_id for _, message_id in handled} == {sent.message_id for sent in sents}
    assert world.is_quiet(orders)


@pytest.mark.needs_tracker
def test_an_exception_is_a_retry_after_the_queue_s_backoff(world: World) -> None:
    orders = world.queue(backoff=("1s", "1s"))
    seen: SimpleQueue[tuple[int, Any]] = SimpleQueue()

    @orders.handler()
    def handle(payload: bytes, delivery: marq.Delivery[bytes]) -> None:
        seen.put((delivery.attempt, world.now()))
        if delivery.attempt == 1:
            raise ValueError("busy")

    orders.send(b"1")
    with world.broker.worker(orders):
        ((attempt, failed_at),) = get(world, seen)
        assert attempt == 1
        attempt, again_at = get_in_time(world, seen)

    assert attempt == 2
    assert (again_at - failed_at).total_seconds() >= 1
    assert world.is_quiet(orders)


@pytest.mark.needs_tracker
@pytest.mark.parametrize("kind", ["sync", "async", "batch"])
def test_a_message_whose_handler_always_fails_dies_with_its_history(
    world: World, kind: str
) -> None:
    orders = world.queue(max_attempts=3, backoff=("0s", "0s"))

    def fail(payload: bytes) -> None:
        raise ValueError("boom")

    async def fail_async(payload: bytes) -> None:
        raise ValueError("boom")

    def fail_batch(payloads: list[bytes]) -> None:
        raise ValueError("boom")

    functions: dict[str, Callable[..., Any]] = {
        "sync": fail,
        "async": fail_async,
        "batch": fail_batch,
    }
    orders.handler(batch=kind == "batch")(functions[kind])

    orders.send(b"1")
    with world.broker.worker(orders):
        letter = world.letter(orders)

    assert letter.reason == "max attempts (3) reached: ValueError: boom"
    assert [past.attempt for past in letter.history] == [1, 2, 3]
    assert {past.reason for past in letter.history} == {"ValueError: boom"}


@pytest.mark.needs_tracker
def test_a_handler_may_reject(world: World) -> None:
    orders = world.queue()

    @orders.handler()
    def handle(payload: bytes, delivery: marq.Delivery[bytes]) -> None:
        delivery.reject("not ours")

    orders.send(b"1")
    with world.broker.worker(orders):
        letter = world.letter(orders)

    assert (letter.reason, letter.attempts) == ("not ours", 1)


@pytest.mark.needs_tracker
def test_what_a_handler_decided_stands_even_if_it_fails_afterwards(world: World) -> None:
    orders = world.queue()

    @orders.handler()
    def handle(payload: bytes, delivery: marq.Delivery[bytes]) -> None:
        delivery.reject("not ours")
        raise ValueError("too late")

    orders.send(b"1")
    with world.broker.worker(orders):
        letter = world.letter(orders)

    assert letter.reason == "not ours"
    assert world.is_quiet(orders)


@pytest.mark.needs_tracker
def test_a_handler_may_retry_when_it_likes(world: World) -> None:
    orders = world.queue()
    seen: SimpleQueue[int] = SimpleQueue()

    @orders.handler()
    def handle(payload: bytes, delivery: marq.Delivery[bytes]) -> None:
        if delivery.attempt == 1:
            delivery.retry(after="0s")
        seen.put(delivery.attempt)

    orders.send(b"1")
    with world.broker.worker(orders):
        assert get(world, seen, 2) == [1, 2]


@pytest.mark.needs_tracker
@pytest.mark.parametrize("batch", [False, True])
def test_an_undecodable_payload_is_buried_once_and_its_bytes_are_kept(
    world: World, batch: bool
) -> None:
    orders = world.queue(type=Order)
    seen: SimpleQueue[Any] = SimpleQueue()
    orders.handler(batch=batch)(lambda payload: seen.put(payload))

    orders.send(b"\xff not json")
    orders.send(Order(7))
    with world.broker.worker(orders):
        assert get(world, seen) == [[Order(7)] if batch else Order(7)]
        letter = world.letter(orders)

    assert letter.raw == b"\xff not json"
    assert letter.attempts == 1
    assert "the payload of 10 bytes is not a Order" in letter.reason
    assert seen.empty()
    assert world.is_quiet(orders)


@pytest.mark.needs_tracker
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_handler_past_its_timeout_has_lost_its_message(world: World, kind: str) -> None:
    orders = world.queue(max_attempts=1)
    started, done = threading.Event(), threading.Event()

    def hang(payload: bytes) -> None:
        started.set()
        done.wait(100)

    async def hang_async(payload: bytes) -> None:
        started.set()
        await asyncio.sleep(3_600)

    orders.handler(timeout="1s")(hang if kind == "sync" else hang_async)

    orders.send(b"1")
    with world.broker.worker(orders):
        assert started.wait(world.patience_s)
        world.let_pass("1500ms")
        letter = world.letter(orders)
        done.set()

    assert "timeout: the handler ran longer than 1s" in letter.reason
    assert len(orders.dead_letters.list()) == 1


@pytest.mark.needs_tracker
def test_a_lease_is_kept_alive_while_a_handler_runs(world: World) -> None:
    orders = world.queue(lease="3s")
    seen: SimpleQueue[int] = SimpleQueue()
    finish = threading.Event()

    @orders.handler()
    def handle(payload: bytes, delivery: marq.Delivery[bytes]) -> None:
        seen.put(delivery.attempt)
        finish.wait(100)

    orders.send(b"1")
    with world.broker.worker(orders):
        assert get(world, seen) == [1]
        world.let_pass("5s")
        assert world.is_quiet(world.reconnect().queue(orders.name))
        finish.set()

    assert seen.empty()
    assert world.is_quiet(orders)
    assert orders.dead_letters.list() == []


@pytest.mark.needs_tracker
def test_a_lease_is_kept_alive_while_a_handler_runs_again(world: World) -> None:
    orders = world.queue(lease="3s", backoff=("100ms", "100ms"))
    seen: SimpleQueue[int] = SimpleQueue()
    finish = threading.Event()

    @orders.handler()
    def handle(payload: bytes, delivery: marq.Delivery[bytes]) -> None:
        seen.put(delivery.attempt)
        if delivery.attempt == 1:
            raise ValueError("not at first")
        finish.wait(100)

    orders.send(b"1")
    with world.broker.worker(orders):
        assert get(world, seen) == [1]
        assert get_in_time(world, seen) == 2
        world.let_pass("5s")
        assert world.is_quiet(world.reconnect().queue(orders.name))
        finish.set()

    assert seen.empty()
    assert world.is_quiet(orders)
    assert orders.dead_letters.list() == []


@pytest.mark.needs_tracker
def test_a_message_whose_worker_died_reaches_another(world: World) -> None:
    orders = world.queue(lease="1s")
    seen: SimpleQueue[int] = SimpleQueue()
    finish = threading.Event()

    @orders.handler()
    def handle(payload: bytes, delivery: marq.Delivery[bytes]) -> None:
        seen.put(delivery.attempt)
        if delivery.attempt == 1:
            finish.wait(100)

    orders.send(b"1")
    with world.broker.worker(orders):
        assert get(world, seen) == [1]
        world.crash_workers()
        world.let_pass("2s")
        assert get(world, seen) == [2]
        finish.set()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_no_more_handlers_run_at_once_than_concurrency_says(world: World, kind: str) -> None:
    orders = world.queue()
    running: list[int] = []
    seen: SimpleQueue[int] = SimpleQueue()
    lock, are_three = threading.Lock(), threading.Event()

    def enter() -> None:
        with lock:
            running.append(1)
            seen.put(len(running))
            if len(running) == 3:
                are_three.set()

    def leave() -> None:
        with lock:
            running.pop()

    def handle(payload: bytes) -> None:
        enter()
        are_three.wait(world.patience_s)
        threading.Event().wait(0.002)
        leave()

    async def handle_async(payload: bytes) -> None:
        enter()
        while not are_three.is_set():
            await asyncio.sleep(0.002)
        await asyncio.sleep(0.002)
        leave()

    orders.handler(concurrency=3)(handle if kind == "sync" else handle_async)
    orders.send_many([b""] * 30)
    with world.broker.worker(orders):
        at_once = get(world, seen, 30)

    assert max(at_once) == 3


def test_a_slow_handler_does_not_hold_the_others_up(world: World) -> None:
    orders = world.queue(partitions=1)
    seen: SimpleQueue[str] = SimpleQueue()
    finish = threading.Event()

    @orders.handler(concurrency=2)
    def handle(payload: str) -> None:
        if payload == "slow":
            finish.wait(100)
        seen.put(payload)

    orders.send_many(["slow", "1", "2", "3"])
    with world.broker.worker(orders):
        assert get(world, seen, 3) == ["1", "2", "3"]
        finish.set()

    assert get(world, seen) == ["slow"]


def test_stopping_lets_handlers_finish_and_takes_no_more(world: World) -> None:
    orders = world.queue()
    seen: SimpleQueue[bytes] = SimpleQueue()
    started, finish = threading.Event(), threading.Event()

    @orders.handler(concurrency=1)
    def handle(payload: bytes) -> None:
        started.set()
        finish.wait(100)
        seen.put(payload)

    orders.send(b"first")
    worker = world.broker.worker(orders)
    worker.start()
    assert started.wait(world.patience_s)
    stopping = threading.Thread(target=worker.stop)
    stopping.start()
    orders.send(b"second")

    finish.set()
    stopping.join(world.patience_s)

    assert get(world, seen) == [b"first"]
    assert seen.empty()
    left = world.take_one(orders)
    assert (left.payload, left.attempt) == (b"second", 1)
    assert world.is_quiet(orders)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_what_does_not_finish_in_time_is_given_back_without_an_attempt(
    world: World, kind: str
) -> None:
    orders = world.queue()
    started, done = threading.Event(), threading.Event()

    def hang(payload: bytes) -> None:
        started.set()
        done.wait(100)

    async def hang_async(payload: bytes) -> None:
        started.set()
        await asyncio.sleep(3_600)

    impatient = world.reconnect(drain_timeout="50ms")
    same = impatient.queue(orders.name)
    same.handler()(hang if kind == "sync" else hang_async)
    orders.send(b"1")
    with impatient.worker(same):
        assert started.wait(world.patience_s)

    delivery = world.take_one(orders)
    assert (delivery.payload, delivery.attempt) == (b"1", 1)
    done.set()


def test_stopping_twice_is_harmless(world: World) -> None:
    orders = world.queue()
    orders.handler()(lambda payload: None)
    worker = world.broker.worker(orders)
    worker.start()
    worker.stop()

    worker.stop()


def test_one_worker_runs_the_handlers_of_several_queues(world: World) -> None:
    orders, bills = world.queue(), world.queue()
    seen: SimpleQueue[str] = SimpleQueue()

    @orders.handler()
    def order(payload: str) -> None:
        bills.send(f"bill for {payload}")

    @bills.handler()
    async def bill(payload: str) -> None:
        seen.put(payload)

    orders.send("order 7")
    with world.broker.worker(orders, bills):
        assert get(world, seen) == ["bill for order 7"]


def test_run_returns_when_the_broker_is_closed(world: World) -> None:
    broker = world.reconnect()
    orders = broker.queue(world.name())
    seen: SimpleQueue[bytes] = SimpleQueue()

    @orders.handler()
    def handle(payload: bytes) -> None:
        seen.put(payload)

    running = threading.Thread(target=broker.run, args=(orders,))
    running.start()
    orders.send(b"1")
    assert get(world, seen) == [b"1"]

    broker.close()
    running.join(world.patience_s)

    assert not running.is_alive()


def test_dead_letters_can_be_handled_too(world: World) -> None:
    orders = world.queue()
    letters = orders.dead_letters
    seen: SimpleQueue[bytes] = SimpleQueue()

    @letters.handler()
    def handle(payload: bytes) -> None:
        seen.put(payload)

    letters.send(b"1")
    with world.broker.worker(letters):
        assert get(world, seen) == [b"1"]

    assert orders.dead_letters.list() == []


BOMB, JSON = b"[" * 200_000, {"content-type": b"application/json"}


@pytest.mark.parametrize("wanted", [None, Order])
def test_what_does_not_decode_is_alone_in_its_batch(world: World, wanted: Any) -> None:
    orders = world.queue(type=wanted, partitions=1)
    seen: SimpleQueue[int] = SimpleQueue()

    @orders.handler(batch=True)
    def handle(found: list[Any], deliveries: list[marq.Delivery[Any]]) -> None:
        for delivery in deliveries:
            seen.put(int(delivery.message_id.rsplit(":", 1)[1]))

    for number in range(10):
        orders.send(BOMB, headers=JSON) if number == 5 else orders.send({"id": number})
    with world.broker.worker(orders):
        handled = get(world, seen, 9)

    assert sorted(handled) == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert seen.empty()
    assert world.is_quiet(orders)


def test_what_does_not_decode_is_one_error_for_whoever_pulls(world: World) -> None:
    orders = world.queue()
    orders.send(BOMB, headers=JSON)

    delivery = world.take_one(orders)

    with pytest.raises(marq.PayloadError):
        _ = delivery.payload
    assert delivery.raw == BOMB
    delivery.ack()


def test_a_reason_that_cannot_be_written_as_it_is_settles_all_the_same(world: World) -> None:
    orders = world.queue()
    orders.send_many([b"1", b"2"])
    first, second = world.take(orders, 2)

    first.reject("\ud800" * 1_000).result(world.patience_s)
    second.ack().result(world.patience_s)
    orders.flush("10s")

    assert world.is_quiet(orders)


class Untold(Exception):
    """Does not even say what is wrong."""

    def __init__(self, instead: BaseException) -> None:
        self._instead = instead

    def __str__(self) -> str:
        raise self._instead


class Unnamed(type):
    """Of errors that do not even say what they are."""

    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise KeyError("injected")


class Nameless(Exception, metaclass=Unnamed): ...


NO_WORDS = (Untold(KeyError("injected")), Untold(SystemExit("injected")), Nameless())


@pytest.mark.parametrize("error", [*NO_WORDS, ValueError("\ud800"), SystemExit("\ud800")])
def test_whatever_a_handler_raises_ends_no_worker(world: World, error: BaseException) -> None:
    orders = world.queue(backoff=("10ms", "10ms"), max_attempts=5)
    seen: SimpleQueue[bytes] = SimpleQueue()
    failed = threading.Event()

    @orders.handler(concurrency=1)
    def handle(payload: bytes) -> None:
        if payload == b"bad" and not failed.is_set():
            failed.set()
            raise error
        seen.put(payload)

    orders.send_many([b"bad", b"1", b"2"])
    with world.broker.worker(orders) as worker:
        assert sorted(get(world, seen, 3)) == [b"1", b"2", b"bad"]
        worker.stop()

    assert world.is_quiet(orders)
