"""Ordered groups on a real broker: order, acks, redelivery, dead letters, membership."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from operator import methodcaller
from typing import Any

import pytest

import marq
from marq.core.fate import redelivery
from marq.core.fate.redelivery import Context
from marq.core.messages.stored import Stored
from marq.groups.keys import SUBJECT, partition_of
from marq.kafka.groups import owner, performer
from tests.e2e.kafka_fixtures import NewQueue
from tests.e2e.kafka_process import eventually

pytestmark = [pytest.mark.java, pytest.mark.kafka]

PATIENCE_S = 60.0
Consume = Callable[..., marq.Instance]


class Seen:
    """A handler that remembers, and settles as it is told."""

    def __init__(
        self, settle: Callable[[marq.GroupDelivery], object] = methodcaller("ack")
    ) -> None:
        self._settle = settle
        self._changed = threading.Condition()
        self.deliveries: list[marq.GroupDelivery] = []

    def __call__(self, delivery: marq.GroupDelivery) -> None:
        with self._changed:
            self.deliveries.append(delivery)
            self._changed.notify_all()
        self._settle(delivery)

    @property
    def payloads(self) -> list[Any]:
        return [each.payload for each in list(self.deliveries)]

    def wait(self, count: int) -> None:
        with self._changed:
            there = self._changed.wait_for(lambda: len(self.deliveries) >= count, PATIENCE_S)
        assert there, f"{len(self.deliveries)} of {count}: {self.payloads}"


@pytest.fixture
def consume() -> Iterator[Consume]:
    instances: list[marq.Instance] = []

    def start(group: marq.Group, member: str, handler: Any, **more: Any) -> marq.Instance:
        instances.append(group.consume(member, handler, **more))
        return instances[-1]

    yield start
    for each in instances:
        each.stop()


def new_group(broker: marq.Broker, queue: marq.Queue[Any], **options: Any) -> marq.Group:
    return broker.group(queue.name, "g", **{"max_members": 4, "members": ["m1"], **options})


def is_done(group: marq.Group) -> bool:
    return sum(group.info().waiting) == 0


def test_each_key_is_handled_in_order_by_the_member_that_owns_it(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume
) -> None:
    queue = new_queue(partitions=3)
    group = new_group(broker, queue, members=["m1", "m2"])
    sent = [queue.send(str(number), key=f"k{number % 7}") for number in range(70)]
    ones, twos = Seen(), Seen()

    consume(group, "m1", ones)
    consume(group, "m2", twos)

    assert eventually(lambda: len(ones.payloads) + len(twos.payloads) == 70)
    by_key: dict[bytes | None, list[str]] = defaultdict(list)
    for delivery in (*ones.deliveries, *twos.deliveries):
        by_key[delivery.key].append(delivery.payload)
    assert by_key == {
        f"k{key}".encode(): [str(number) for number in range(key, 70, 7)] for key in range(7)
    }
    assert {each.partition for each in ones.deliveries} <= {0, 1}
    assert {each.partition for each in twos.deliveries} <= {2, 3}
    ids = {each.message_id for each in (*ones.deliveries, *twos.deliveries)}
    assert ids == {each.message_id for each in sent}
    assert eventually(lambda: is_done(group))


def test_what_is_put_back_comes_again_before_anything_of_its_partition(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume
) -> None:
    queue = new_queue()
    group = new_group(broker, queue)
    for payload, key in (("a1", "a"), ("a2", "a"), ("b1", "cust-42")):
        queue.send(payload, key=key)

    def settle(delivery: marq.GroupDelivery) -> None:
        if delivery.payload == "a1" and delivery.attempt < 3:
            delivery.nak("200ms")
        else:
            delivery.ack()

    seen = Seen(settle)
    consume(group, "m1", seen)
    seen.wait(5)

    ours = [(each.payload, each.attempt) for each in seen.deliveries if each.key == b"a"]
    assert ours == [("a1", 1), ("a1", 2), ("a1", 3), ("a2", 1)]
    assert seen.payloads.index("b1") < 4, "a partition that waits must not stop the others"


def test_a_handler_that_raises_has_its_message_again_until_it_is_a_dead_letter(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume
) -> None:
    queue = new_queue()
    group = new_group(broker, queue, max_deliver=2)
    for payload in ("poison", "fine"):
        queue.send(payload, key="k")

    def settle(delivery: marq.GroupDelivery) -> None:
        if delivery.payload == "poison":
            raise ValueError("no")
        delivery.ack()

    seen = Seen(settle)
    consume(group, "m1", seen)
    seen.wait(3)

    assert seen.payloads == ["poison", "poison", "fine"]
    assert eventually(lambda: len(queue.dead_letters.list()) == 1)
    [letter] = queue.dead_letters.list()
    assert (letter.payload, letter.key, letter.attempts) == ("poison", b"k", 2)
    assert "max deliver (2)" in letter.reason


def test_a_message_can_be_given_up_at_once(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume
) -> None:
    queue = new_queue()
    group = new_group(broker, queue)
    sent = queue.send("bad", key="k", headers={"h": "1"})
    queue.send("good", key="k")
    seen = Seen(lambda each: each.term("why") if each.payload == "bad" else each.ack())

    consume(group, "m1", seen)
    seen.wait(2)

    assert eventually(lambda: len(queue.dead_letters.list()) == 1)
    [letter] = queue.dead_letters.list()
    assert (letter.message_id, letter.reason) == (sent.message_id, "why")
    assert letter.headers["h"] == b"1"


def test_what_was_given_up_and_comes_again_can_still_be_acked(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume
) -> None:
    queue = new_queue()
    group = new_group(broker, queue, max_ack_pending=2)
    for payload in ("kept", "given up"):
        queue.send(payload, key="k")
    kept: list[marq.GroupDelivery] = []

    def settle(delivery: marq.GroupDelivery) -> None:
        if len(kept) == 2:
            return delivery.ack()
        kept.append(delivery)
        if delivery.payload == "given up":
            delivery.term("why")
            kept[0].nak()
        return None

    seen = Seen(settle)
    consume(group, "m1", seen)
    seen.wait(4)

    assert seen.payloads == ["kept", "given up"] * 2
    assert eventually(lambda: is_done(group))
    assert queue.dead_letters.list() == []


def test_what_is_not_acked_in_time_comes_again(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume
) -> None:
    queue = new_queue()
    group = new_group(broker, queue, ack_wait="2s")
    queue.send("x", key="k")
    seen = Seen(lambda each: each.ack() if each.attempt == 2 else None)

    consume(group, "m1", seen)
    seen.wait(2)

    assert [each.attempt for each in seen.deliveries] == [1, 2]
    with pytest.raises(marq.LeaseLost):
        seen.deliveries[0].ack()
    with pytest.raises(marq.AlreadySettled):
        seen.deliveries[1].ack()


def test_ack_wait_starts_over_with_in_progress(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume
) -> None:
    queue = new_queue()
    group = new_group(broker, queue, ack_wait="4s")
    queue.send("x", key="k")
    seen = Seen(lambda each: None)
    instance = consume(group, "m1", seen)
    seen.wait(1)

    until = time.monotonic() + 5
    while time.monotonic() < until:
        seen.deliveries[0].in_progress()
        instance.wait(0.1)
    seen.deliveries[0].ack()

    assert len(seen.deliveries) == 1


def test_a_double_ack_is_durable_with_its_outputs_when_it_returns(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume
) -> None:
    queue, other = new_queue(), new_queue()
    group = new_group(broker, queue)
    queue.send("x", key="k")
    done = threading.Event()

    def settle(delivery: marq.GroupDelivery) -> None:
        delivery.double_ack([marq.Output(other.name, "y", key="k2", headers={"h": "1"})])
        done.set()

    consume(group, "m1", settle)
    assert done.wait(PATIENCE_S)

    [found] = other.receive(wait="20s")
    assert (found.payload, found.key, found.headers["h"]) == ("y", b"k2", b"1")
    assert eventually(lambda: is_done(group))


def test_an_output_that_cannot_be_sent_acks_nothing(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume
) -> None:
    queue = new_queue()
    group = new_group(broker, queue)
    queue.send("x", key="k")
    raised: list[BaseException] = []

    def settle(delivery: marq.GroupDelivery) -> None:
        if delivery.attempt == 1:
            try:
                delivery.double_ack([marq.Output("no-such-queue", "y")])
            except marq.QueueError as error:
                raised.append(error)
                delivery.nak()
        else:
            delivery.double_ack()

    seen = Seen(settle)
    instance = consume(group, "m1", seen)
    seen.wait(2)

    assert not isinstance(raised[0], marq.Fenced)
    assert instance.is_active
    assert eventually(lambda: is_done(group))


def test_stepping_down_lets_a_standby_take_over(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume
) -> None:
    queue = new_queue()
    group = new_group(broker, queue)
    said: list[str] = []
    first = consume(
        group,
        "m1",
        Seen(),
        on_activate=lambda it: said.append("on"),
        on_deactivate=lambda it: said.append("off"),
    )
    assert first.wait_until_active(PATIENCE_S)
    second = consume(group, "m1", Seen())
    assert eventually(lambda: len(group.instances) == 2)
    assert group.active() == {"m1": first.id}

    assert group.step_down("m1")

    assert second.wait_until(lambda: second.partitions == {0, 1, 2, 3}, PATIENCE_S)
    assert group.active() == {"m1": second.id}
    assert said == ["on", "off"]
    assert not group.step_down("nobody")


def test_a_member_that_is_dropped_finishes_what_it_has(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume
) -> None:
    queue = new_queue()
    group = new_group(broker, queue, members=["m1", "m2"])
    begun, go_on = threading.Event(), threading.Event()

    def slowly(delivery: marq.GroupDelivery) -> None:
        begun.set()
        assert go_on.wait(PATIENCE_S)
        delivery.double_ack()

    ones, twos = Seen(slowly), Seen()
    first = consume(group, "m1", ones)
    second = consume(group, "m2", twos)
    for number in range(3):
        queue.send(str(number), key="a")
    assert begun.wait(PATIENCE_S)

    assert group.drop("m1") == ["m2"]
    assert first.wait_until(lambda: not first.partitions, PATIENCE_S)
    go_on.set()

    twos.wait(2)
    assert (ones.payloads, twos.payloads) == (["0"], ["1", "2"])
    assert twos.deliveries[0].fence > ones.deliveries[0].fence
    assert second.wait_until(lambda: second.partitions == {0, 1, 2, 3}, PATIENCE_S)
    assert eventually(lambda: not first.is_active)


def test_partitions_that_stay_where_they_are_never_stop(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume
) -> None:
    queue = new_queue()
    group = new_group(broker, queue, allocation="sticky")
    first = consume(group, "m1", Seen())
    assert first.wait_until(lambda: len(first.partitions) == 4, PATIENCE_S)
    changes: list[frozenset[int]] = []

    second = consume(group, "m2", Seen())
    group.add("m2")
    while len(second.partitions) < 2:
        changes.append(first.partitions)
        assert not second.wait(0.01)

    kept = frozenset({0, 1, 2, 3}) - second.partitions
    assert len(kept) == 2
    assert all(kept <= found for found in changes)


def test_two_admins_at_once_both_have_their_way(
    connect: Callable[..., marq.Broker], new_queue: NewQueue
) -> None:
    queue = new_queue()
    new_group(connect(), queue, max_members=16, members=[])

    def add(names: list[str]) -> None:
        mine = connect().group(queue.name, "g")
        for name in names:
            mine.add(name)

    halves = [[f"{who}{number}" for number in range(5)] for who in ("a", "b")]
    admins = [threading.Thread(target=add, args=(names,)) for names in halves]
    for each in admins:
        each.start()
    for each in admins:
        each.join()

    assert sorted(connect().group(queue.name, "g").members()) == sorted(halves[0] + halves[1])


def test_mappings_say_who_has_what(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume
) -> None:
    group = new_group(broker, new_queue())
    first = consume(group, "m1", Seen())
    second = consume(group, "m2", Seen())

    assert group.map({"m1": [0, 3], "m2": [1, 2]}) == ["m1", "m2"]

    assert first.wait_until(lambda: first.partitions == {0, 3}, PATIENCE_S)
    assert second.wait_until(lambda: second.partitions == {1, 2}, PATIENCE_S)
    with pytest.raises(marq.ConfigError, match="is mapped"):
        group.add("m3")
    assert group.unmap() == []
    assert first.wait_until(lambda: not first.is_active, PATIENCE_S)
    assert group.add("m1") == ["m1"]
    assert first.wait_until(lambda: len(first.partitions) == 4, PATIENCE_S)


def test_deleting_a_group_ends_its_instances_and_leaves_the_queue(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume
) -> None:
    queue = new_queue()
    group = new_group(broker, queue)
    active, standby = consume(group, "m1", Seen()), consume(group, "m1", Seen())
    waiting = consume(group, "nobody", Seen())
    assert active.wait_until_active(PATIENCE_S) or standby.wait_until_active(PATIENCE_S)

    group.delete()

    assert all(each.wait(PATIENCE_S) for each in (active, standby, waiting))
    assert (queue.name, "g") not in broker.groups()
    queue.send("x", key="k")
    seen = Seen()
    again = new_group(broker, queue, members=["m2"])
    consume(again, "m2", seen)
    seen.wait(1)
    assert seen.payloads == ["x"]


def test_a_static_group_reads_the_queue_itself(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume
) -> None:
    queue = new_queue(partitions=4)
    group = new_group(broker, queue, kind="static", members=["m1", "m2"])
    sent = [group.send(str(number), key=str(number)).result(30) for number in range(8)]
    ones, twos = Seen(lambda each: None), Seen(lambda each: None)

    consume(group, "m1", ones, ack="return")
    consume(group, "m2", twos, ack="return")

    assert eventually(lambda: len(ones.payloads) + len(twos.payloads) == 8)
    assert [each.partition for each in sent] == [partition_of(str(n).encode(), 4) for n in range(8)]
    assert {each.partition for each in ones.deliveries} == {0, 1}
    assert eventually(lambda: is_done(group))
    with pytest.raises(marq.ConfigError, match="no member of this static group"):
        consume(group, "m3", Seen()).wait(PATIENCE_S)
    with pytest.raises(marq.ConfigError, match="fixed"):
        group.add("m3")


def all_that_came_back(queue: marq.Queue[Any]) -> list[str]:
    """Makes copies of some messages, by giving back and by redriving; their payloads."""
    for payload in ("given back", "redriven"):
        queue.send(payload, key="k")
    queue.receive(wait="20s")[0].give_back().result(30)
    # What the tracker writes when a receiver rejects it, for groups have read it by then.
    letter = redelivery.buried(
        Stored(queue.name, 0, 0, 0, b"k", b"redriven", ()), Context(queue.name, None, 0, 0.0), "no"
    ).record
    assert letter is not None
    backend: Any = queue._backend
    backend.sender.send(letter).result(30)
    assert queue.dead_letters.redrive() == 1
    queue.send("last", key="k")
    return ["given back", "redriven", "last"]


@pytest.mark.parametrize("kind", ["elastic", "static"])
def test_a_group_gets_nothing_of_what_came_back_to_the_queue_s_own_receivers(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume, kind: str
) -> None:
    queue = new_queue(partitions=1)
    group = new_group(broker, queue, max_members=1, kind=kind)
    seen = Seen()

    payloads = all_that_came_back(queue)
    consume(group, "m1", seen)
    seen.wait(3)

    assert seen.payloads == payloads
    own = {each.raw.decode() for each in queue.receive(max=10, wait="20s")}
    while len(own) < 3:
        own |= {each.raw.decode() for each in queue.receive(max=10, wait="20s")}
    assert own == set(payloads)
    assert eventually(lambda: is_done(group))


def test_a_group_s_letter_goes_back_to_the_group_and_to_nobody_else(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume
) -> None:
    queue = new_queue(partitions=1)
    group, other = new_group(broker, queue), broker.group(queue.name, "o", max_members=2)
    queue.send("poison", key="k")
    queue.receive(wait="20s")[0].ack().result(30)
    said = iter(("no", ""))
    seen = Seen(lambda each: each.term(why) if (why := next(said)) else each.ack())
    consume(group, "m1", seen)
    assert eventually(lambda: len(queue.dead_letters.list()) == 1)

    assert queue.dead_letters.redrive() == 1
    seen.wait(2)

    again = seen.deliveries[1]
    assert (again.payload, again.key, again.partition) == (
        "poison",
        b"k",
        seen.deliveries[0].partition,
    )
    assert again.message_id == seen.deliveries[0].message_id
    assert [past.reason for past in again._stored.meta().history] == ["no"]
    backend: Any = broker.backend
    assert backend.admin.ends(queue.name, 1) == [1], "nothing was sent to the queue"
    assert sum(backend.admin.ends(f"{queue.name}.group.o", 2)) == 0
    assert other.name == "o"


def test_letters_of_a_deleted_group_stay_and_the_others_are_redriven(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume
) -> None:
    queue = new_queue()
    group = new_group(broker, queue)
    queue.send("of the group", key="k")
    with consume(group, "m1", Seen(lambda each: each.term("no"))):
        assert eventually(lambda: len(queue.dead_letters.list()) == 1)
    queue.dead_letters.send("of the queue")
    group.delete()

    with pytest.raises(marq.ConfigError, match="1 dead letters were redriven, 1 stay"):
        queue.dead_letters.redrive()

    assert [letter.payload for letter in queue.dead_letters.list()] == ["of the group"]
    assert queue.dead_letters.discard() == 1


def test_filters_choose_messages_and_their_keys(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume
) -> None:
    queue = new_queue()
    filters = [{"filter": "orders.*.*", "partitioning_wildcards": [2]}]
    group = new_group(broker, queue, partitioning_filters=filters)
    for subject in ("orders.1.eu", "other.1.eu", "orders.2.eu", "orders.3.us"):
        queue.send(subject, key=subject, headers={SUBJECT: subject})
    queue.send("no subject")
    seen = Seen()

    consume(group, "m1", seen)
    seen.wait(3)

    assert sorted(seen.payloads) == ["orders.1.eu", "orders.2.eu", "orders.3.us"]
    assert {each.payload: each.partition for each in seen.deliveries} == {
        name: partition_of(name[-2:].encode(), 4) for name in seen.payloads
    }


def test_copying_waits_while_too_much_waits(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume
) -> None:
    queue = new_queue(partitions=1)
    group = new_group(broker, queue, max_buffered_msgs=50)
    go_on = threading.Event()

    def settle(delivery: marq.GroupDelivery) -> None:
        assert go_on.wait(PATIENCE_S)
        delivery.ack()

    seen = Seen(settle)
    consume(group, "m1", seen)
    queue.send_many([b"x"] * 50, key="k")
    assert eventually(lambda: sum(group.info().waiting) >= 50)  # as much as may
    for _ in range(11):
        queue.send_many([b"x"] * 50, key="k")
        time.sleep(0.1)  # what is to stay away gets time to come

    waiting = sum(group.info().waiting)
    go_on.set()

    assert 50 <= waiting < 600
    seen.wait(600)


def test_each_partition_can_have_a_message_in_hand(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume
) -> None:
    queue = new_queue()
    group = new_group(broker, queue, pending_per="partition")
    together = threading.Barrier(4, timeout=PATIENCE_S)
    for number in range(4):
        queue.send(str(number), key=str(number))

    def settle(delivery: marq.GroupDelivery) -> None:
        together.wait()
        delivery.ack()

    seen = Seen(settle)
    consume(group, "m1", seen)
    seen.wait(4)

    assert eventually(lambda: is_done(group))
    assert not together.broken


def test_a_delayed_message_is_not_early_and_an_expired_one_not_delivered(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume
) -> None:
    queue = new_queue()
    group = new_group(broker, queue)
    queue.send("expired", key="k", ttl="1ms")
    sent = queue.send("later", key="k", delay="1500ms")
    seen = Seen()

    consume(group, "m1", seen)
    seen.wait(1)

    assert seen.payloads == ["later"]
    assert sent.due is not None
    assert broker.backend.now_ms() / 1_000 >= sent.due.timestamp()
    assert eventually(lambda: len(queue.dead_letters.list()) == 1)


def test_a_hanging_transaction_in_the_control_log_holds_nobody_up(
    kafka: Any, broker: marq.Broker, new_queue: NewQueue, consume: Consume
) -> None:
    from confluent_kafka import Producer

    queue = new_queue()
    group = new_group(broker, queue)
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": queue.name}
    hanging = Producer(settings)
    hanging.init_transactions(30)
    hanging.begin_transaction()
    hanging.produce(f"{queue.name}.group.g.control", b"not ours")
    hanging.flush(30)

    first = consume(group, "m1", Seen())
    assert first.wait_until(lambda: len(first.partitions) == 4, PATIENCE_S)
    second = consume(group, "m2", Seen())
    group.add("m2")

    assert second.wait_until(lambda: len(second.partitions) == 2, PATIENCE_S)
    hanging.abort_transaction(30)
    # Its end is the last record of the log now, and no reader is ever given it.
    assert set(group.config.names) == {"m1", "m2"}


def test_what_is_acked_does_not_fill_the_disk(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, "TRIM_S", 0.0)
    queue = new_queue()
    group = new_group(broker, queue)
    seen = Seen()
    consume(group, "m1", seen)
    queue.send_many(["x"] * 20, key="k")
    seen.wait(20)
    queue.send("y", key="k")
    seen.wait(21)

    backend: Any = broker.backend
    assert eventually(lambda: sum(backend.admin.starts(f"{queue.name}.group.g", 4)) >= 20)


def test_offsets_that_may_have_expired_stop_an_instance_instead_of_starting_over(
    broker: marq.Broker, new_queue: NewQueue, consume: Consume, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(performer, "_EXPIRES_MS", -1)
    group = new_group(broker, new_queue())

    with pytest.raises(marq.QueueError, match="has expired"):
        consume(group, "m1", Seen()).wait(PATIENCE_S)


def test_a_config_is_created_once(broker: marq.Broker, new_queue: NewQueue) -> None:
    queue = new_queue()
    new_group(broker, queue)

    assert new_group(broker, queue).members() == ["m1"]
    assert broker.group(queue.name, "g").config.max_members == 4
    with pytest.raises(marq.ConfigError, match="max_members is 4, not 5"):
        new_group(broker, queue, max_members=5)
    with pytest.raises(marq.ConfigError, match="members is"):
        new_group(broker, queue, members=["m2"])


def test_what_cannot_be_is_refused(broker: marq.Broker, new_queue: NewQueue) -> None:
    queue = new_queue(partitions=2)
    group = new_group(broker, queue)

    with pytest.raises(marq.ConfigError, match="max_members"):
        broker.group(queue.name, "other")
    with pytest.raises(marq.ConfigError, match="no queue"):
        broker.group("no-such-queue", "g", max_members=1)
    with pytest.raises(marq.ConfigError, match="has 2, not 3"):
        broker.group(queue.name, "static", max_members=3, kind="static")
    with pytest.raises(marq.ConfigError, match="needs a handler"):
        group.consume("m1", None)  # type: ignore[arg-type]
    with pytest.raises(marq.ConfigError, match="explicit"):
        group.consume("m1", print, ack="return")
    with pytest.raises(marq.ConfigError, match="a group has no option"):
        broker.group(queue.name, "g", max_member=1)  # type: ignore[call-arg]
    with pytest.raises(marq.ConfigError, match="is mapped twice"):
        group.map({"a": [0, 1, 2, 3], "b": [3]})


def test_a_key_has_the_same_partition_in_every_process() -> None:
    code = "from marq.groups.keys import partition_of as p; print([p(k, 7) for k in (b'a', b'b')])"
    command = [sys.executable, "-c", code]

    found = {
        subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            env={"PYTHONHASHSEED": s},
        ).stdout
        for s in ("0", "1")
    }

    assert found == {f"{[partition_of(key, 7) for key in (b'a', b'b')]}\n"}
