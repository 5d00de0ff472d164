"""Half messages: committed they are delivered, rolled back they never are."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import marq
from marq.core.markers.marker import HalfAnswer
from tests.conformance.world import World

SOON = {"check_after": "400ms", "check_every": "400ms"}


class OwnerGone(BaseException):
    """In the place of a kill: no block says anything of it."""


class Database:
    """What local transactions have written, and whoever is asked about them."""

    def __init__(self) -> None:
        self.said: dict[str, object] = {}
        self.asked: list[str] = []
        self.payloads: list[bytes] = []
        self.heard = threading.Condition()

    def check(self, half_id: str, payload: bytes) -> Any:
        with self.heard:
            found = self.said.get(half_id, "unknown")
            self.asked.append(half_id)
            self.payloads.append(payload)
            self.heard.notify_all()
        if isinstance(found, Exception):
            raise found
        return found

    def wait_asked(self, half_id: str, times: int = 1) -> None:
        with self.heard:
            assert self.heard.wait_for(lambda: self.asked.count(half_id) >= times, 60)


@pytest.fixture
def database() -> Database:
    return Database()


def group(
    world: World, queue: marq.Queue[Any], database: Database, **options: Any
) -> marq.ProducerGroup:
    return queue.producer_group(f"g{queue.name}", check=database.check, **{**SOON, **options})


@contextmanager
def killed() -> Iterator[None]:
    with contextlib.suppress(OwnerGone):
        yield


def test_a_half_message_is_invisible_until_it_is_committed(
    world: World, database: Database
) -> None:
    orders = world.joined_queue()
    shop = group(world, orders, database, check_after="1m")

    with shop.half({"order": 7}, key="7", headers={"region": "eu"}) as half:
        assert world.is_quiet(orders)

    delivery = world.take_one(orders)
    assert (delivery.payload, delivery.key) == ({"order": 7}, b"7")
    assert delivery.headers["region"] == b"eu"
    assert (delivery.message_id, delivery.attempt) == (half.id, 1)


def test_its_id_may_be_the_senders_own(world: World, database: Database) -> None:
    orders = world.joined_queue()
    shop = group(world, orders, database, check_after="1m")

    half = shop.half(b"1", message_id="order-7")
    half.commit().result()

    assert world.take_one(orders).message_id == "order-7"
    assert half.id != "order-7"


def test_rolled_back_it_is_never_delivered(world: World, database: Database) -> None:
    orders = world.joined_queue()
    shop = group(world, orders, database, check_after="1m")

    with shop.half(b"by hand") as half:
        half.rollback().result()
    with shop.half(b"by exception"):
        raise marq.Rollback
    shop.half(b"committed").commit().result()

    assert world.take_one(orders).payload == b"committed"
    assert world.is_quiet(orders)


def test_deciding_twice_the_same_is_nothing_and_otherwise_refused(
    world: World, database: Database
) -> None:
    orders = world.joined_queue()
    half = group(world, orders, database, check_after="1m").half(b"1")

    first, second = half.commit(), half.commit()
    with pytest.raises(marq.AlreadySettled):
        half.rollback()

    first.result()
    second.result()
    world.take_one(orders)
    assert world.is_quiet(orders)


def test_many_are_sent_and_committed_at_once(world: World, database: Database) -> None:
    orders = world.joined_queue()
    shop = group(world, orders, database, check_after="1m")

    halves = [each.result() for each in [shop.half_nowait(str(n).encode()) for n in range(50)]]
    for receipt in [half.commit() for half in halves]:
        receipt.result()

    found = world.take(orders, 50)
    assert {each.message_id for each in found} == {half.id for half in halves}


@pytest.mark.parametrize("verdict", ["commit", "rollback"])
def test_after_an_exception_the_groups_own_check_decides_at_once(
    world: World, database: Database, verdict: str
) -> None:
    orders = world.joined_queue()
    shop = group(world, orders, database, check_after="1m")

    with pytest.raises(RuntimeError, match="connection lost"), shop.half(b"1") as half:
        database.said[half.id] = verdict
        raise RuntimeError("connection lost")

    assert database.asked == [half.id]
    if verdict == "commit":
        assert world.take_one(orders).message_id == half.id
    assert world.is_quiet(orders)


def test_delay_counts_from_its_commit(world: World, database: Database) -> None:
    orders = world.joined_queue()
    shop = group(world, orders, database, check_after="1m")
    half = shop.half(b"1", delay="2s")
    world.let_pass("1s")
    committed = world.now()

    half.commit().result()

    world.let_pass("1500ms")
    world.let_pass("600ms")
    world.take_one(orders)
    assert (world.now() - committed).total_seconds() >= 2


def test_async_blocks_and_async_checks(world: World, database: Database) -> None:
    orders = world.joined_queue()

    async def check(half_id: str, payload: bytes) -> marq.Check:
        await asyncio.sleep(0)
        return marq.COMMIT

    shop = orders.producer_group(f"g{orders.name}", check=check, check_after="1m")

    async def send() -> str:
        async with await shop.half_nowait(b"1") as half:
            pass
        with pytest.raises(RuntimeError):
            async with await shop.half_nowait(b"2"):
                raise RuntimeError
        return half.id

    half_id = asyncio.run(send())

    found = {each.payload: each.message_id for each in world.take(orders, 2)}
    assert found[b"1"] == half_id


def test_the_names_of_a_group(world: World, database: Database) -> None:
    orders, others = world.queue(), world.queue()
    shop = group(world, orders, database)
    same = group(world, orders, database)

    with pytest.raises(marq.ConfigError, match="belongs to queue"):
        others.producer_group(shop.name, check=database.check)
    with pytest.raises(marq.ConfigError, match="letters, digits"):
        orders.producer_group("no.dots", check=database.check)
    with pytest.raises(marq.ConfigError, match="needs a check"):
        orders.producer_group("shop", check=None)  # type: ignore[arg-type]
    with pytest.raises(marq.ConfigError, match="no option 'check_evry'"):
        orders.producer_group("shop", check=database.check, check_evry="1s")  # type: ignore[call-arg]
    assert same.name == shop.name


def test_a_queue_without_dead_letters_never_gives_up(world: World, database: Database) -> None:
    orders = world.queue(dead_letter=False)

    with pytest.raises(marq.ConfigError, match="give_up_after=None"):
        group(world, orders, database)

    group(world, orders, database, give_up_after=None)


def test_a_group_with_open_halves_is_not_deleted(world: World, database: Database) -> None:
    orders = world.joined_queue()
    shop = group(world, orders, database, check_after="1m")
    half = shop.half(b"1")

    with pytest.raises(marq.ConfigError, match="not decided"):
        orders.delete_producer_group(shop.name)
    half.rollback().result()
    orders.delete_producer_group(shop.name)

    with pytest.raises(marq.ConfigError, match="no producer group"):
        orders.delete_producer_group(shop.name)


@pytest.mark.parametrize("deletes", ["the queue", "the group"])
def test_what_could_not_be_decided_is_refused_before_it_is_sent(
    world: World, database: Database, deletes: str
) -> None:
    orders = world.queue()
    shop = group(world, orders, database)
    operator = world.reconnect()

    with pytest.raises(marq.ConfigError, match="no option"):
        shop.half(b"1", dely="1s")  # type: ignore[call-arg]
    if deletes == "the queue":
        operator.delete_queue(orders.name)
    else:
        operator.queue(orders.name).delete_producer_group(shop.name)

    def refused() -> bool:
        try:
            shop.half(b"1").rollback().result()
        except marq.ConfigError:
            return True
        return False

    world.wait_until(refused)


def test_halves_are_counted_apart(world: World, database: Database) -> None:
    orders = world.joined_queue()
    shop = group(world, orders, database, check_after="1m")

    half = shop.half(b"1")

    stats = world.broker.backend.counted(orders.name)
    assert (stats.halves, stats.delayed, stats.ready) == (1, 0, 0)
    half.commit().result()
    orders.flush()
    stats = world.broker.backend.counted(orders.name)
    assert (stats.halves, stats.ready) == (0, 1)


@pytest.mark.needs_tracker
def test_when_its_owner_is_gone_the_group_is_asked(world: World, database: Database) -> None:
    orders = world.joined_queue()
    shop = group(world, orders, database)

    with killed(), shop.half({"order": 7}, key="k") as half:
        database.said[half.id] = marq.COMMIT
        raise OwnerGone
    with killed(), shop.half(b"no") as other:
        database.said[other.id] = "rollback"
        raise OwnerGone
    world.let_pass("1s")

    delivery = world.take_one(orders)
    database.wait_asked(other.id)
    assert (delivery.message_id, delivery.key, delivery.attempt) == (half.id, b"k", 1)
    assert b'{"order":7}' in database.payloads
    world.let_pass("1s")
    assert world.is_quiet(orders)
    world.wait_until(lambda: world.broker.backend.counted(orders.name).halves == 0)


@pytest.mark.needs_tracker
def test_while_its_block_is_open_nobody_is_asked(world: World, database: Database) -> None:
    orders = world.joined_queue()
    shop = group(world, orders, database, check_after="1s")

    with shop.half(b"1"):
        world.wait_until(lambda: orders.stats().halves == 1)
        world.let_pass("3s")

    world.take_one(orders)
    assert database.asked == []


@pytest.mark.needs_tracker
def test_after_its_timeout_it_is_asked_although_its_owner_lives(
    world: World, database: Database
) -> None:
    orders = world.joined_queue()
    shop = group(world, orders, database, timeout="500ms")

    with shop.half(b"1") as half:
        database.said[half.id] = marq.COMMIT
        world.let_pass("2s")
        assert world.take_one(orders).message_id == half.id
        database.wait_asked(half.id)


@pytest.mark.needs_tracker
def test_never_decided_it_is_a_dead_letter_that_tells_why(world: World, database: Database) -> None:
    orders = world.joined_queue()
    shop = group(world, orders, database, max_checks=3)
    answers: list[object] = [RuntimeError("database away"), "nonsense", "unknown"]

    with killed(), shop.half(b"1", key="k") as half:
        database.said[half.id] = answers[0]
        raise OwnerGone
    for number in range(1, 4):
        world.let_pass("600ms")
        database.wait_asked(half.id, number)
        database.said[half.id] = answers[min(number, 2)]
    world.let_pass("600ms")

    def given_up() -> bool:
        world.let_pass("100ms")
        return bool(orders.dead_letters.list())

    world.wait_until(given_up)
    letter = world.letter(orders)
    assert "never decided" in letter.reason and shop.name in letter.reason
    reasons = [past.reason for past in letter.history]
    assert "database away" in reasons[0] and "nonsense" in reasons[1]
    assert orders.dead_letters.redrive() == 1
    assert world.take_one(orders).message_id == half.id


@pytest.mark.needs_tracker
def test_while_no_member_lives_nothing_is_given_up(world: World, database: Database) -> None:
    orders = world.joined_queue()
    shop = group(world, orders, database, max_checks=1)
    with killed(), shop.half(b"1") as half:
        database.said[half.id] = marq.COMMIT
        raise OwnerGone
    shop.close()

    def asked_often() -> bool:
        world.let_pass("500ms")
        found = world.broker.backend.halves.seen()
        return any(each.stored.address == half.id and each.asked >= 3 for each in found)

    world.wait_until(asked_often)
    group(world, orders, database)
    world.let_pass("3s")

    assert world.take_one(orders).message_id == half.id
    assert orders.dead_letters.list() == []


@pytest.mark.needs_tracker
def test_the_first_of_two_answers_counts(world: World, database: Database) -> None:
    orders = world.joined_queue()
    shop = group(world, orders, database, check_after="1m")
    with killed(), shop.half(b"1") as half:
        raise OwnerGone
    [seen] = [h for h in world.broker.backend.halves.seen() if h.stored.address == half.id]

    for verdict in (marq.COMMIT, marq.ROLLBACK, marq.COMMIT):
        answer = HalfAnswer((seen.ref,), verdict)
        world.broker.backend.halves.answer(seen.stored.partition, answer).result()

    assert world.take_one(orders).message_id == half.id
    assert world.is_quiet(orders)


@pytest.mark.needs_tracker
def test_a_purge_is_not_about_open_halves(world: World, database: Database) -> None:
    orders = world.joined_queue()
    shop = group(world, orders, database, check_after="1m")
    half = shop.half(b"1")

    orders.purge()
    half.commit().result()

    assert world.take_one(orders).message_id == half.id


@pytest.mark.needs_tracker
def test_of_a_deleted_queue_they_are_dead_letters(world: World, database: Database) -> None:
    orders = world.queue()
    shop = group(world, orders, database)
    with killed(), shop.half(b"1"):
        raise OwnerGone

    world.broker.delete_queue(orders.name)
    world.let_pass("2s")
    again = world.broker.queue(orders.name)

    def buried() -> bool:
        world.let_pass("100ms")
        return bool(again.dead_letters.list())

    world.wait_until(buried)
    assert "deleted" in world.letter(again).reason
