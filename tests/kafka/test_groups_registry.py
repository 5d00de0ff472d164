"""Ordered groups are recorded with the queue they belong to, and end with it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

import marq
from marq.core.catalog.definitions import Catalog
from marq.errors import ConfigError, NotConnected
from marq.groups.names import GroupNames
from marq.kafka.backend import Kafka
from marq.kafka.groups import keeping
from marq.kafka.groups.keeping import GroupKeeping
from marq.kafka.groups.registry import Registry
from tests.e2e.kafka_fixtures import NewQueue
from tests.e2e.kafka_process import eventually
from tests.kafka.catalog_records import by_a_newer_one
from tests.kafka.test_groups import Seen

pytestmark = [pytest.mark.java, pytest.mark.kafka]

ONE: dict[str, Any] = {"max_members": 2, "members": ["m"], "lease": "1s"}


def left(backend: Kafka, names: GroupNames) -> set[str]:
    """What topics there are of a group."""
    return {names.base, names.control, names.leases} & set(backend.admin.topics())


def copied(backend: Kafka, names: GroupNames) -> int:
    return backend.admin.committed(names.copied, names.queue, 1)[0]


def consume_all(group: marq.Group, number: int) -> list[Any]:
    seen = Seen()
    with group.consume("m", seen):
        seen.wait(number)
        assert eventually(lambda: sum(group.info().waiting) == 0)
    group.close()
    return seen.payloads


def test_a_group_is_recorded_until_nothing_of_it_is_left(
    broker: marq.Broker, backend: Kafka, new_queue: NewQueue
) -> None:
    queue = new_queue(partitions=1)
    names = GroupNames(queue.name, "g")
    group = broker.group(*names.place, **ONE)
    assert backend.catalog().has_group(*names.place)
    assert names.place in broker.groups()

    group.delete()

    assert not backend.catalog().knows_group(*names.place)
    assert eventually(lambda: not left(backend, names))
    assert names.place not in broker.groups()


def test_a_deleted_queue_takes_its_groups_along(
    broker: marq.Broker, backend: Kafka, new_queue: NewQueue
) -> None:
    queue = new_queue(partitions=1)
    names = GroupNames(queue.name, "g")
    queue.send_many([b"old"] * 3)
    assert len(consume_all(broker.group(*names.place, **ONE), 3)) == 3

    broker.delete_queue(queue.name)

    assert eventually(lambda: not left(backend, names))
    assert copied(backend, names) < 0
    assert not backend.catalog().knows_group(*names.place)


def test_a_queue_made_again_inherits_no_group_whose_deletion_was_cut_short(
    broker: marq.Broker, backend: Kafka, new_queue: NewQueue
) -> None:
    queue = new_queue(partitions=1)
    names = GroupNames(queue.name, "g")
    queue.send_many([b"old"] * 3)
    consume_all(broker.group(*names.place, **ONE), 3)
    assert backend.change(
        queue.name, None, backend.catalog().queue_version(queue.name)
    )  # and here the process dies
    assert left(backend, names)

    again = broker.queue(queue.name, partitions=1)
    again.send_many([b"1", b"2", b"3", b"4"], key="k")

    assert names.place not in broker.groups()
    with pytest.raises(ConfigError, match="create it with max_members"):
        broker.group(*names.place)
    group = broker.group(*names.place, **{**ONE, "max_members": 3})
    assert consume_all(group, 4) == [b"1", b"2", b"3", b"4"]


@pytest.fixture
def tracker(backend: Kafka, monkeypatch: pytest.MonkeyPatch) -> GroupKeeping:
    monkeypatch.setattr(keeping, "LEFT_S", 0.0)
    return GroupKeeping(backend)


def keep(tracker: GroupKeeping, names: GroupNames, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round that is about this group only: others' tests go on beside it."""
    registry = tracker._registry

    def only_this(found: set[GroupNames]) -> set[GroupNames]:
        return found & {names}

    seen, gone, leftovers = registry.seen, registry.without_topics, Catalog.leftover_groups
    with monkeypatch.context() as patched:
        patched.setattr(registry, "seen", lambda: only_this(seen()))
        patched.setattr(registry, "without_topics", lambda catalog: only_this(gone(catalog)))
        patched.setattr(
            Catalog,
            "leftover_groups",
            lambda catalog: iter(
                each.place for each in only_this({GroupNames(*each) for each in leftovers(catalog)})
            ),
        )
        tracker.keep(0)


def test_the_tracker_removes_what_is_left_of_a_deleted_queue_s_groups(
    broker: marq.Broker,
    backend: Kafka,
    new_queue: NewQueue,
    tracker: GroupKeeping,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue = new_queue(partitions=1)
    names = GroupNames(queue.name, "g")
    broker.group(*names.place, **ONE)
    assert backend.change(queue.name, None, backend.catalog().queue_version(queue.name))

    monkeypatch.setattr(keeping, "LEFT_S", 60.0)
    keep(tracker, names, monkeypatch)
    assert left(backend, names)  # someone may be at it
    monkeypatch.setattr(keeping, "LEFT_S", 0.0)
    keep(tracker, names, monkeypatch)

    assert eventually(lambda: not left(backend, names))
    assert not backend.catalog().knows_group(*names.place)


def test_a_leftover_that_cannot_be_removed_keeps_no_other_from_it(
    broker: marq.Broker, backend: Kafka, tracker: GroupKeeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = GroupNames("left", "a"), GroupNames("left", "b")
    asked: list[GroupNames] = []

    def refuse(names: GroupNames) -> None:
        asked.append(names)
        raise NotConnected("not now")

    monkeypatch.setattr(tracker._manager, "delete", refuse)
    monkeypatch.setattr(tracker._registry, "seen", lambda: set())
    monkeypatch.setattr(tracker._registry, "without_topics", lambda catalog: {one, other})

    tracker.keep(0)

    assert {one, other} <= set(asked)


def test_the_tracker_records_groups_of_earlier_releases_and_forgets_those_they_delete(
    broker: marq.Broker,
    backend: Kafka,
    new_queue: NewQueue,
    tracker: GroupKeeping,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = GroupNames(new_queue(partitions=1).name, "g")
    with monkeypatch.context() as earlier:
        earlier.setattr(Registry, "record", lambda self, names: None)
        group = broker.group(*names.place, **ONE)
    assert not backend.catalog().knows_group(*names.place)
    assert names.place in broker.groups()

    keep(tracker, names, monkeypatch)
    assert backend.catalog().has_group(*names.place)
    assert group.config.max_members == 2

    backend.admin.delete(names.control, names.leases, names.base)
    assert eventually(lambda: not left(backend, names))
    keep(tracker, names, monkeypatch)
    assert not backend.catalog().knows_group(*names.place)


def test_a_group_that_only_a_newer_release_understands_is_left_alone(
    broker: marq.Broker, backend: Kafka, new_queue: NewQueue
) -> None:
    names = GroupNames(new_queue(partitions=1).name, "g")
    group = broker.group(*names.place, **ONE)
    value = by_a_newer_one(backend, f"{names.queue}/{names.group}", kind="group")

    for refused in (group.delete, lambda: group.add("m2"), lambda: broker.group(*names.place)):
        with pytest.raises(ConfigError, match="made by a newer marq"):
            refused()

    found = backend.catalog().record("group", f"{names.queue}/{names.group}")
    assert found is not None
    assert found.value == value
    assert len(left(backend, names)) == 3
    by_a_newer_one(backend, f"{names.queue}/{names.group}", "group", {"queue_version": 1})
    assert group.members() == ["m"]


@pytest.mark.parametrize(
    ("queue", "group", "advice"),
    [
        ("", "g" * 41, "may have 40 characters, this one has 41"),
        ("q" * 200, "g" * 40, "Kafka takes 249: shorten the queue's name or the group's"),
    ],
)
def test_a_group_whose_name_is_too_long_is_refused(
    broker: marq.Broker, new_queue: NewQueue, queue: str, group: str, advice: str
) -> None:
    with pytest.raises(ConfigError, match=advice):
        broker.group(queue or new_queue().name, group, **ONE)


def test_a_group_and_a_queue_never_share_a_consumer_group(
    broker: marq.Broker, backend: Kafka, new_queue: NewQueue
) -> None:
    queue = new_queue(partitions=1)
    other = f"group.{queue.name}.g"
    version = backend.catalog().queue_version(other)
    assert backend.change(
        other, replace(queue.definition, purged={}), version
    )  # an earlier release did

    with pytest.raises(ConfigError, match="choose another name for the group"):
        broker.group(queue.name, "g", **ONE)
    broker.delete_queue(other)
