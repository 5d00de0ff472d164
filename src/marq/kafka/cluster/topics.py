"""The topics marq makes, and what they must be set to."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from marq.core.names import Space
from marq.core.subject import Subject
from marq.errors import ConfigError, NotConnected
from marq.kafka.cluster.admin import Admin

# Topics are never emptied by time or size, whatever the cluster's defaults are: the tracker trims
# what nobody needs any more.
KEPT: dict[str, str] = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
LOGGED: dict[str, str] = {**KEPT, "message.timestamp.type": "LogAppendTime"}
"""What every topic must be set to whose records are messages or markers."""
# A broker frees the disk by whole segments that nothing is added to any more. By default one lasts
# for a gigabyte or a week.
TRIMMED: dict[str, str] = {"segment.ms": "3600000"}
_QUEUE = {**LOGGED, **TRIMMED}
# What was within the limit of a queue's topic is a little larger as a dead letter or parked: it has
# headers that say what happened to it.
_ROOMY = {**_QUEUE, "max.message.bytes": str(64 * 1_048_576)}
_CHECKS = {
    "cleanup.policy": "delete",
    "retention.ms": "3600000",
    "segment.ms": "600000",
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": _ROOMY["max.message.bytes"],
}
_COMPACTED = {"cleanup.policy": "compact", "segment.ms": "600000"}

_APPEAR_S = 3.0
"""How long topics that were made together may come into sight one after the other."""

FoundTopics = dict[str, tuple[bytes, int] | None]


def _own(space: Space, hold_log_partitions: int) -> dict[str, tuple[int, dict[str, str]]]:
    """A namespace's own topics: with how many partitions and settings they are made."""
    return {
        space.catalog: (1, _QUEUE),
        space.markers: (hold_log_partitions, _ROOMY),
        space.delayed: (hold_log_partitions, _ROOMY),
        space.stats: (1, _COMPACTED),
    }


def lay_out(
    admin: Admin, replicas: int, space: Space, wanted: int, *, by_tracker: bool = False
) -> int:
    """See to it that marq's own topics are there; how many partitions the hold logs have, which is
    what they were made with, for good.

    Whoever comes first makes them all, hold logs with as many partitions as are `wanted`. One that
    is missing beside others (a newer release's, one that was deleted) is the tracker's to make: it
    starts now and then, clients do at any time.
    """
    found = _look(admin, space)
    missing = [name for name, about in found.items() if about is None]
    if missing and (by_tracker or len(missing) == len(found)):
        _make(admin, replicas, space, found, wanted)
        found = {name: admin.describe_new(name) for name in found}
        missing = [name for name, about in found.items() if about is None]
        if missing:
            raise NotConnected(f"the cluster at {admin.servers} did not create {missing[0]}")
    if missing:
        raise ConfigError(
            f"topic {missing[0]} is missing on the cluster at {admin.servers}: start a tracker of "
            f"this release (marq tracker), it makes what is missing"
        )
    return _partitions(admin, space, found)


def _look(admin: Admin, space: Space) -> FoundTopics:
    until = time.monotonic() + _APPEAR_S
    while True:
        found = admin.describe_all(_own(space, 0))
        if all(found.values()) or not any(found.values()) or time.monotonic() > until:
            return found
        time.sleep(0.05)


def _make(admin: Admin, replicas: int, space: Space, found: FoundTopics, wanted: int) -> None:
    missing = [name for name, about in found.items() if about is None]
    there = {name: about[1] for name, about in found.items() if about is not None}
    if space.catalog in missing:
        _refuse_to_forget(admin, space, there)
    number = next((there[name] for name in space.hold_logs if name in there), wanted)
    own = _own(space, number)
    admin.create(((name, *own[name]) for name in missing), replicas)
    admin.wait_until_led(*missing)


def _refuse_to_forget(admin: Admin, space: Space, there: dict[str, int]) -> None:
    """An empty catalog beside messages that are open means that their queues were deleted: all of
    them would become dead letters."""
    for name in space.hold_logs:
        if name in there and any(admin.ends(name, there[name])):
            raise ConfigError(
                f"topic {space.catalog} is missing on the cluster at {admin.servers}, and {name} "
                f"has records of messages: without their queues they would be dead letters. "
                f"Restore it; if all queues are to be forgotten, delete "
                f"{' and '.join(space.hold_logs)} too"
            )


def _partitions(admin: Admin, space: Space, found: FoundTopics) -> int:
    markers, delayed = (found[name] for name in space.hold_logs)
    assert markers is not None and delayed is not None
    if markers[1] != delayed[1]:
        raise ConfigError(
            f"{space.markers} has {markers[1]} partitions and {space.delayed} {delayed[1]} on the "
            f"cluster at {admin.servers}: someone added some, and what is in them is lost to the "
            f"tracker. Neither may be altered"
        )
    return markers[1]


def remove(admin: Admin, name: str, topic_id: str) -> bool:
    """Delete the topic if it is the one of this id: a deletion that was cut short goes on. False:
    there is none, or it is another one."""
    old = bytes.fromhex(topic_id)
    if admin.topic_id(name) != old:
        return False
    admin.delete(name)
    until = time.monotonic() + _APPEAR_S
    while admin.topic_id(name) == old and time.monotonic() < until:
        time.sleep(0.05)  # brokers hear of it one after the other
    return True


AT_ONCE = 200
"""So many queues are created together: a request for more would take a controller seconds."""


def create_queues(
    admin: Admin, queues: Sequence[str], partitions: int, replicas: int, space: Space
) -> None:
    """Create queues' topics and start offsets. The catalog comes last: who sees a queue can use
    it. A crash in between leaves empty topics that the next creation takes over."""
    for at in range(0, len(queues), AT_ONCE):
        some = queues[at : at + AT_ONCE]
        topics = {topic: partitions for topic in some}
        topics |= {Subject(queue).letters: 1 for queue in some}
        _create(admin, topics, replicas, space)


def _create(admin: Admin, topics: Mapping[str, int], replicas: int, space: Space) -> None:
    _refuse_foreign(admin, *topics)
    wanted = (
        (topic, number, _ROOMY if Subject(topic).is_letters else _QUEUE)
        for topic, number in topics.items()
    )
    made = admin.create(wanted, replicas)
    admin.wait_until_led(*topics)
    groups = {space.consumer_group(topic): (topic, topics[topic]) for topic in made}
    begun = admin.begin(groups)
    for topic, number in topics.items():
        if topic not in made:
            _refuse_another_size(admin, topic, number)
        if space.consumer_group(topic) not in begun:
            _commit_start(admin, space, topic, number)


def _refuse_another_size(admin: Admin, topic: str, partitions: int) -> None:
    found = admin.describe_new(topic)
    if found is None:
        raise NotConnected(f"the cluster at {admin.servers} did not create topic {topic!r}")
    if (there := found[1]) != partitions:
        raise ConfigError(
            f"topic {topic!r} exists with {there} partitions, not {partitions}: "
            f"say partitions={there}, or choose another name"
        )


def create_checks(admin: Admin, topic: str, partitions: int, replicas: int) -> None:
    """Create the topic in which a producer group is asked; what nobody hears comes again."""
    admin.create([(topic, partitions, _CHECKS)], replicas)
    admin.wait_until_led(topic)


def _refuse_foreign(admin: Admin, *topics: str) -> None:
    """Take over a topic only if it is set up as marq's are: from another one the cluster would
    delete what nobody has acked, and marq what others may still want to read."""
    there = [topic for topic, about in admin.describe_all(topics).items() if about]
    for topic in there:
        found = admin.settings(topic)
        wrong = {name: want for name, want in LOGGED.items() if found[name] != want}
        if wrong:
            raise ConfigError(
                f"topic {topic!r} exists and is not a queue's ("
                + ", ".join(f"{name} is {found[name]}" for name in wrong)
                + "). From a queue's topic marq deletes what is acked, and nothing else may: "
                "choose another name, or set it to "
                + ",".join(f"{name}={want}" for name, want in wrong.items())
            )


def _commit_start(admin: Admin, space: Space, topic: str, partitions: int) -> None:
    group = space.consumer_group(topic)
    committed = admin.committed(group, topic, partitions)
    starts, ends = admin.starts(topic, partitions), admin.ends(topic, partitions)
    # Offsets beyond the end are those of a deleted queue of this name.
    if not all(s <= at <= e for s, at, e in zip(starts, committed, ends, strict=True)):
        admin.commit(group, topic, starts)
