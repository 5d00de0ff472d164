"""Names of queues, and of the topics that belong to them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from zlib import crc32

from msgspec import Struct

from marq.errors import ConfigError


class Space(Struct, frozen=True, gc=False):
    """What is marq's own in one namespace of a cluster: topics, groups, transactional ids.

    A namespace is a trust domain: who may write to its logs can do what he likes to its queues, and
    nothing to those of another.
    """

    namespace: str = ""

    @property
    def prefix(self) -> str:
        """What the names of all that is its own begin with."""
        return f"marq-{self.namespace}." if self.namespace else "marq."

    @property
    def catalog(self) -> str:
        return f"{self.prefix}catalog"

    @property
    def markers(self) -> str:
        return f"{self.prefix}markers"

    @property
    def delayed(self) -> str:
        return f"{self.prefix}delayed"

    @property
    def stats(self) -> str:
        return f"{self.prefix}stats"

    @property
    def hold_logs(self) -> tuple[str, str]:
        """The logs that the tracker folds."""
        return self.markers, self.delayed

    def checks(self, group: str) -> str:
        """The topic in which members of a producer group are asked about half messages."""
        return f"{self.prefix}checks.{group}"

    def checks_group(self, group: str) -> str:
        """The consumer group of a producer group's members: no topic can have its name."""
        return f"{self.prefix.removesuffix('.')}/checks/{group}"

    def consumer_group(self, topic: str) -> str:
        """The group whose offsets say how far a topic was polled."""
        return f"{self.prefix}{topic}"

    def tracker_id(self, topic: str, partition: int) -> str:
        """The transactional id under which one act at a time writes to a hold log."""
        return f"{self.prefix}tracker.{topic}.{partition}"


DEFAULT = Space()
CATALOG, STATS = DEFAULT.catalog, DEFAULT.stats
MARKERS, DELAYED = DEFAULT.hold_logs

MAX_NAME = 200
"""A topic's name has at most 249 characters; `dlq.` and `.group.<g>.control` must fit beside."""

MAX_TOPIC = 249

_NAMESPACE = re.compile(r"[A-Za-z0-9_-]{1,40}")
_OWN = re.compile(r"marq(?:-(?P<namespace>[A-Za-z0-9_-]{1,40}))?\.(?P<log>markers|delayed|catalog)")
_PRODUCER_GROUP = re.compile(r"[A-Za-z0-9_-]{1,40}")
_ALLOWED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_RESERVED = re.compile(r"(?i:marq\.|dlq\.|__).*|.*\.p\d+|.*\.(sub|group)\..*")
# Queues may have these that were made before they were reserved. `group.orders.billing` has the
# consumer group of group `billing` of `orders`, and `orders.sub` with priorities the topic of
# subscription `p1` of `orders`; `marq-pay.` begins what is marq's own in namespace `pay`.
_COLLIDING = re.compile(r"(?i:marq-|group\.).*|.*\.(sub|group)")
_OF_QUEUE = re.compile(r"(?:dlq\.)?(?P<queue>.+?)(?:\.p\d+|\.(?:sub|group)\..*|/.*)?", re.DOTALL)


def queue_name(name: object) -> str:
    """The name, if a queue may have it."""
    if not isinstance(name, str) or not name:
        raise ConfigError(f"a queue's name must be a text, not {name!r}")
    if len(name) > MAX_NAME:
        raise ConfigError(
            f"a queue's name may have {MAX_NAME} characters, this one has {len(name)}: shorten it"
        )
    if not _ALLOWED.fullmatch(name):
        raise ConfigError(
            f"a queue's name is made of letters, digits, '.', '_' and '-', "
            f"and starts with a letter or digit: {name!r} is not"
        )
    if _RESERVED.fullmatch(name):
        raise ConfigError(
            f"{name!r} is a name marq uses itself: names may not start with 'marq.', 'dlq.' or "
            f"'__', end in '.p<number>' or contain '.sub.' or '.group.'"
        )
    return name


def producer_group(name: object) -> str:
    """The name, if a producer group may have it."""
    if not isinstance(name, str) or not _PRODUCER_GROUP.fullmatch(name):
        raise ConfigError(
            f"a producer group's name is made of at most 40 letters, digits, '_' and '-': "
            f"{name!r} is not"
        )
    return name


def space(namespace: object) -> Space:
    """The namespace of this name, if it may have it; empty: that of clusters without any."""
    if not isinstance(namespace, str) or (namespace and not _NAMESPACE.fullmatch(namespace)):
        raise ConfigError(
            f"a namespace's name is made of at most 40 letters, digits, '_' and '-': "
            f"{namespace!r} is not"
        )
    return Space(namespace)


def space_of_catalog(topic: str) -> Space | None:
    """The namespace whose catalog this topic is."""
    found = _OWN.fullmatch(topic)
    is_catalog = found is not None and found["log"] == "catalog"
    return Space(found["namespace"] or "") if found and is_catalog else None


def is_markers(topic: str) -> bool:
    """Whether the topic is a namespace's log of markers."""
    found = _OWN.fullmatch(topic)
    return found is not None and found["log"] == "markers"


def is_delayed(topic: str) -> bool:
    """Whether the topic is a namespace's log of parked messages."""
    found = _OWN.fullmatch(topic)
    return found is not None and found["log"] == "delayed"


def is_topic(name: str) -> bool:
    """Whether Kafka has topics of that name."""
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def new_queue_name(name: object, others: Iterable[str] = ()) -> str:
    """The name, if a new queue may have it beside these others."""
    found = queue_name(name)
    if collides(found):
        raise ConfigError(
            f"{found!r} is a name marq uses itself: names may not start with 'marq-' or 'group.', "
            f"or end in '.sub' or '.group'"
        )
    refuse_alike([found], others)
    return found


def refuse_alike(queues: Iterable[str], others: Iterable[str]) -> None:
    """`ConfigError` if one of these is too close to another or to one of the others."""
    there = {_alike(other): other for other in others}
    for queue in queues:
        close = there.setdefault(_alike(queue), queue)
        if close != queue:
            raise ConfigError(
                f"{queue!r} is too close to queue {close!r}: Kafka refuses topics whose names "
                f"differ only in '.' and '_'; choose another name"
            )


def collides(name: str) -> bool:
    """Whether this is a name that only a queue of an earlier release can have."""
    return _COLLIDING.fullmatch(name) is not None


def _alike(name: str) -> str:
    return name.replace(".", "_")


def home(topic: str) -> str:
    """The queue that a topic or a text like `jobs/tenant-42` belongs to, by its name."""
    found = _OF_QUEUE.fullmatch(topic)
    return found["queue"] if found else topic


def dead_letters(queue: str) -> str:
    """The topic of a queue's dead letters."""
    return f"dlq.{queue}"


def is_dead_letters(topic: str) -> bool:
    """Whether the topic holds dead letters."""
    return topic.startswith("dlq.")


def markers_partition(topic: str, partition: int, markers_partitions: int) -> int:
    """Where the markers of a source partition go: all of them to one place."""
    return (crc32(topic.encode()) + partition) % markers_partitions


def key_partition(key: bytes, partitions: int) -> int:
    """Where a key's messages go: the same place librdkafka's default partitioner takes."""
    return crc32(key) % partitions
