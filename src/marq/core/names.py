"""Names of queues, and of the topics that belong to them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from zlib import crc32

from marq.errors import ConfigError

CATALOG = "marq.catalog"
MARKERS = "marq.markers"
DELAYED = "marq.delayed"
STATS = "marq.stats"

MAX_NAME = 200
"""A topic's name has at most 249 characters; `dlq.` and `.group.<g>.control` must fit beside."""

MAX_TOPIC = 249

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
    alike = [other for other in others if other != found and _alike(other) == _alike(found)]
    if alike:
        raise ConfigError(
            f"{found!r} is too close to queue {alike[0]!r}: Kafka refuses topics whose names "
            f"differ only in '.' and '_'; choose another name"
        )
    return found


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


def consumer_group(topic: str) -> str:
    """The group whose offsets say how far a topic was polled."""
    return f"marq.{topic}"


def markers_partition(topic: str, partition: int, markers_partitions: int) -> int:
    """Where the markers of a source partition go: all of them to one place."""
    return (crc32(topic.encode()) + partition) % markers_partitions


def key_partition(key: bytes, partitions: int) -> int:
    """Where a key's messages go: the same place librdkafka's default partitioner takes."""
    return crc32(key) % partitions
