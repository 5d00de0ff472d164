"""The topics marq makes, and what they must be set to."""

from __future__ import annotations

from marq.core import names
from marq.errors import ConfigError, NotConnected
from marq.kafka.admin import Admin

MARKERS_PARTITIONS = 4
# Topics are never emptied by time or size, whatever the cluster's defaults are: the tracker trims
# what nobody needs any more.
KEPT: dict[str, str] = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
LOGGED: dict[str, str] = {**KEPT, "message.timestamp.type": "LogAppendTime"}
"""What every topic must be set to whose records are messages or markers."""
# A broker frees the disk by whole segments that nothing is added to any more. By default one lasts
# for a gigabyte or a week.
TRIMMED: dict[str, str] = {"segment.ms": "3600000"}
_QUEUE = {**LOGGED, **TRIMMED}
_COMPACTED = {"cleanup.policy": "compact", "segment.ms": "600000"}


def lay_out(admin: Admin, replicas: int) -> int:
    """Create marq's own topics where they are missing; the number of markers partitions is what
    the first one made it, for good."""
    found = admin.describe(names.MARKERS)
    if found is None or admin.describe(names.STATS) is None:
        own = {
            names.CATALOG: (1, LOGGED),
            names.MARKERS: (MARKERS_PARTITIONS, _QUEUE),
            names.DELAYED: (MARKERS_PARTITIONS, _QUEUE),
            names.STATS: (1, _COMPACTED),
        }
        admin.create(((name, *terms) for name, terms in own.items()), replicas)
        admin.wait_until_led(*own)
        found = admin.describe_new(names.MARKERS)
    if found is None:
        raise NotConnected(f"the cluster at {admin.servers} did not create {names.MARKERS}")
    return found[1]


def create_queue(admin: Admin, name: str, partitions: int, replicas: int) -> None:
    """Create a queue's topics and start offsets. The catalog comes last: who sees the queue can use
    it. A crash in between leaves an empty topic that the next creation takes over."""
    letters = names.dead_letters(name)
    _refuse_foreign(admin, name, letters)
    admin.create([(name, partitions, _QUEUE), (letters, 1, _QUEUE)], replicas)
    admin.wait_until_led(name, letters)
    found = admin.describe_new(name)
    if found is None:
        raise NotConnected(f"the cluster at {admin.servers} did not create topic {name!r}")
    if (there := found[1]) != partitions:
        raise ConfigError(
            f"topic {name!r} exists with {there} partitions, not {partitions}: "
            f"say partitions={there}, or choose another name"
        )
    _commit_start(admin, name, partitions)
    _commit_start(admin, letters, 1)


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


def _commit_start(admin: Admin, topic: str, partitions: int) -> None:
    group = names.consumer_group(topic)
    committed = admin.committed(group, topic, partitions)
    starts, ends = admin.starts(topic, partitions), admin.ends(topic, partitions)
    # Offsets beyond the end are those of a deleted queue of this name.
    if not all(s <= at <= e for s, at, e in zip(starts, committed, ends, strict=True)):
        admin.commit(group, topic, starts)
