"""Instances of ordered groups that die, freeze and come back: order and single ownership hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import marq
from marq import embedded
from tests.e2e.groups_load import Load, finish
from tests.e2e.groups_process import Cast
from tests.e2e.kafka_fixtures import NewQueue

pytestmark = [pytest.mark.java, pytest.mark.kafka, pytest.mark.e2e]

NewCast = Callable[..., Cast]


@pytest.fixture
def new_cast(
    kafka: embedded.Runtime, broker: marq.Broker, new_queue: NewQueue
) -> Iterator[NewCast]:
    casts: list[Cast] = []

    def make(**options: Any) -> Cast:
        queue = new_queue(partitions=2)
        wanted = {"max_members": 4, "members": ["m1"], "lease": "1s", **options}
        casts.append(Cast(kafka.bootstrap_servers, broker.group(queue.name, "g", **wanted)))
        return casts[-1]

    yield make
    for cast in casts:
        cast.__exit__()


def queue_of(broker: marq.Broker, cast: Cast) -> marq.Queue[Any]:
    return broker.queue(cast.group.queue)


def test_a_standby_takes_over_from_a_killed_instance(
    broker: marq.Broker, new_cast: NewCast
) -> None:
    cast = new_cast()
    first = cast.start("m1")
    cast.wait_until_active(first)
    second = cast.start("m1")
    load = Load(queue_of(broker, cast))
    cast.wait_until(lambda: len(first.acked()) > 50)

    first.kill()

    cast.wait_until(lambda: len(second.acked()) > 50)
    finish(cast, load)


def test_a_frozen_instance_is_fenced_when_it_wakes(broker: marq.Broker, new_cast: NewCast) -> None:
    cast = new_cast()
    first = cast.start("m1", work_s=0.005)
    cast.wait_until_active(first)
    second = cast.start("m1", work_s=0.005)
    load = Load(queue_of(broker, cast))
    cast.wait_until(lambda: len(first.acked()) > 20)

    first.freeze()
    cast.wait_until(lambda: len(second.acked()) > 20)
    before = len(first.acked())
    first.thaw()

    cast.wait_until(lambda: not first.is_active)
    finish(cast, load)
    assert len(first.acked()) == before, "a zombie acked"


def test_an_instance_that_is_told_to_stop_hands_over_at_once(
    broker: marq.Broker, new_cast: NewCast
) -> None:
    cast = new_cast()
    first = cast.start("m1")
    cast.wait_until_active(first)
    second = cast.start("m1")
    load = Load(queue_of(broker, cast))
    cast.wait_until(lambda: len(first.acked()) > 20)

    first.terminate()

    cast.wait_until(lambda: len(second.acked()) > 20)
    assert first.process.wait(30) == 0
    assert "ended" in first.lines
    finish(cast, load)


def test_members_come_and_go_under_load(broker: marq.Broker, new_cast: NewCast) -> None:
    cast = new_cast(max_members=8, members=["m1"])
    cast.start("m1")
    load = Load(queue_of(broker, cast), keys=16, pause_s=0.1)
    for wanted in (2, 4, 8, 3, 1):
        scale(cast, wanted)
        victim = cast.members[wanted // 2]
        victim.kill()
        cast.start(victim.name)
        seen = len(cast.said("acked"))
        cast.wait_until(lambda seen=seen: len(cast.said("acked")) > seen + 100)  # type: ignore[misc]

    finish(cast, load)


def scale(cast: Cast, wanted: int) -> None:
    have = cast.group.members()
    names = [f"m{number}" for number in range(1, wanted + 1)]
    if more := [name for name in names if name not in have]:
        for name in more:
            cast.start(name)
        cast.group.add(*more)
    if fewer := [name for name in have if name not in names]:
        cast.group.drop(*fewer)


def test_everything_goes_on_where_it_was_after_all_were_down(
    broker: marq.Broker, new_cast: NewCast
) -> None:
    cast = new_cast(members=["m1", "m2"])
    load = Load(queue_of(broker, cast))
    all_down = [cast.start("m1"), cast.start("m2")]
    cast.wait_until(lambda: len(cast.acked()) > 100)
    for member in all_down:
        member.kill()

    cast.start("m1")
    cast.start("m2")

    finish(cast, load)


def test_a_message_that_kills_its_process_dies_alone(
    broker: marq.Broker, new_cast: NewCast
) -> None:
    cast = new_cast(max_deliver=1)
    queue = queue_of(broker, cast)
    for number, key in enumerate(("k0", "k1", "k0")):
        queue.send(f"{key}-{number}", key=key)

    def goes_on() -> bool:
        return {"k1-1", "k0-2"} <= cast.acked()

    while not goes_on() and len(cast.members) < 8:
        member = cast.start("m1", deadly="k0-0")
        cast.wait_until(lambda m=member: m.process.poll() is not None or goes_on())  # type: ignore[misc]

    cast.wait_until(goes_on)
    [letter] = queue.dead_letters.list()
    assert (letter.payload, letter.attempts) == ("k0-0", 1)
    assert "max deliver (1)" in letter.reason


def test_a_zombie_of_a_deleted_group_acks_nothing_in_its_successor(
    broker: marq.Broker, kafka: embedded.Runtime, new_cast: NewCast
) -> None:
    cast = new_cast()
    queue = queue_of(broker, cast)
    for number in range(200):
        queue.send(f"k-{number}", key="k")
    zombie = cast.start("m1", work_s=0.05)
    cast.wait_until(lambda: len(zombie.acked()) > 5)
    zombie.freeze()
    said = len(zombie.acked())

    cast.group.delete()
    again = broker.group(queue.name, "g", max_members=4, members=["m2"], lease="1s")
    with Cast(kafka.bootstrap_servers, again) as successors:
        second = successors.start("m2")
        successors.wait_until(lambda: len(second.acked()) > 20)
        zombie.thaw()

        successors.wait_until(lambda: len(second.acked()) == 200)
        cast.wait_until(lambda: zombie.process.poll() is not None or not zombie.is_active)
        assert [each.payload for each in second.acked()] == [f"k-{n}" for n in range(200)]
    # The frozen one may have had an ack under way that was a fact before.
    assert len(zombie.acked()) <= said + 1
