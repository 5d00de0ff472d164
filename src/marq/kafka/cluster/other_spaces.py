"""The catalogs of the other namespaces of a cluster, as far as they may be read.

A queue belongs to the namespace whose catalog has it. Two trackers on one topic would each trim
what the other's workers have not had, so a topic of another namespace's queue is refused. Where
rights keep us from reading its catalog, they keep us from its topics, too.

What remains: two namespaces that create a queue of one name within the same moment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from marq.core import names
from marq.core.catalog.definitions import Catalog, NotAnEntry
from marq.core.catalog.reader import CatalogReader, ReadRecord
from marq.core.names import Space
from marq.errors import ConfigError
from marq.kafka.cluster.admin import Admin
from marq.kafka.cluster.reader import LogReader


def refuse_others(admin: Admin, reader: LogReader, own: Space, queues: Collection[str]) -> None:
    """`ConfigError` if another namespace has a queue of one of these names."""
    for space in _others(admin, own):
        found = _catalog(admin, reader, space)
        if taken := next((queue for queue in queues if found.made(queue)), None):
            whose = f"namespace {space.namespace!r}" if space.namespace else "no namespace"
            raise ConfigError(
                f"queue {taken!r} is there already and belongs to {whose}: choose another name, or "
                f"connect with namespace={space.namespace!r}"
            )


def _others(admin: Admin, own: Space) -> Iterator[Space]:
    found = (names.space_of_catalog(topic) for topic in admin.topics())
    return (space for space in found if space is not None and space != own)


def _catalog(admin: Admin, reader: LogReader, space: Space) -> Catalog:
    try:
        start, end = admin.starts(space.catalog, 1)[0], admin.end(space.catalog, 0)
        catalog = CatalogReader(start)
        for message in reader.read(space.catalog, {0: (start, end)}):
            _take(catalog, ReadRecord(message.offset(), message.timestamp()[1], message.value()))
    except ConfigError:
        return Catalog()  # not ours to read
    return catalog.catalog


def _take(catalog: CatalogReader, record: ReadRecord) -> None:
    try:
        catalog.take(record)
    except NotAnEntry:
        return  # any producer may have written it
