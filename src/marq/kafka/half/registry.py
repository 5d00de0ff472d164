"""Which producer groups there are: each has an entry in the catalog and a topic of requests."""

from __future__ import annotations

import contextlib

from marq.core.fate import halves
from marq.core.messages.request import CHECKS_PARTITIONS
from marq.errors import ConfigError, QueueError
from marq.kafka.access import Access
from marq.kafka.cluster import topics
from marq.kafka.half import seen

FEATURE = "halves"
_DEFAULT_MOST = 1_000_000
"""librdkafka's own limit of a record."""
_OVERHEAD = 100


def opened(access: Access, queue: str, group: str) -> int:
    """See to it that the queue has this group; the version that made the queue."""
    access.require(FEATURE)
    while True:
        catalog = access.catalog()
        if catalog.queue(queue) is None:
            raise ConfigError(f"there is no queue {queue!r}: it was deleted")
        found = catalog.producer_group(group)
        if found is not None and found[0] != queue:
            raise ConfigError(halves.of_another(group, found[0]))
        # The topic first: whoever sees the group can use it.
        topic = access.space.checks(group)
        if access.admin.topic_id(topic) is None:
            topics.create_checks(access.admin, topic, CHECKS_PARTITIONS, access.replicas)
        if found is not None:
            return found[1]
        access.catalog_log.append(catalog.record_producer_group(group, queue))


def delete(access: Access, queue: str, group: str) -> None:
    found = access.catalog().producer_group(group)
    if found is None or found[0] != queue:
        raise ConfigError(f"queue {queue!r} has no producer group {group!r} to delete")
    open_now = [half for half in seen.open_halves(access) if _is_of(half.stored, group)]
    if open_now:
        raise ConfigError(halves.still_open(group, len(open_now)))
    forget(access, group)


def forget_of(access: Access, queue: str) -> None:
    """Remove the producer groups of a queue that was deleted."""
    for group in list(access.catalog().leftover_producer_groups()):
        entry = access.catalog().record("producer-group", group)
        if entry is not None and entry.queue == queue:
            forget(access, group)


def forget(access: Access, group: str) -> None:
    while True:
        catalog = access.catalog()
        entry = catalog.record("producer-group", group)
        if entry is None or not entry.exists:
            break
        access.catalog_log.append(catalog.forget_producer_group(group))
    # With the topic the cluster forgets how far its members had read.
    access.admin.delete(access.space.checks(group))


def most_bytes(access: Access, queue: str) -> int:
    """How large a message of the queue may be, as its topic and this client's settings have it."""
    by_topic = _DEFAULT_MOST
    with contextlib.suppress(QueueError):  # not everybody may ask: then the broker refuses it
        by_topic = int(access.admin.settings(queue).get("max.message.bytes", _DEFAULT_MOST))
    own = int(access.extra.get("message.max.bytes", _DEFAULT_MOST))
    return min(by_topic, own) - _OVERHEAD


def _is_of(stored: object, group: str) -> bool:
    half = stored.meta().half  # type: ignore[attr-defined]
    return half is not None and half.group == group
