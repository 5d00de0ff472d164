"""The catalog: definitions of queues, and the rule by which they change.

A change is a record with version + 1, and the first in log order wins; so two who change at once
cannot both win, and everyone who reads the log agrees on who did.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from marq.core import names
from marq.core.catalog.entry import (
    DEAD_LETTERS,
    DEFAULTS,
    GROUP,
    MOST_BYTES,
    PRODUCER_GROUP,
    QUEUE,
    TRACKER,
    Entry,
    NotAnEntry,
    QueueDefinition,
    decode,
    differences,
    encode,
)
from marq.core.subject import Subject
from marq.errors import ConfigError

__all__ = [
    "DEAD_LETTERS",
    "DEFAULTS",
    "MOST_BYTES",
    "Catalog",
    "Entry",
    "Kept",
    "NotAnEntry",
    "QueueDefinition",
    "decode",
    "differences",
    "encode",
]


class Kept(Struct, frozen=True):
    """An entry in force."""

    entry: Entry
    made: int
    """The version that made the thing: what belongs to an earlier one of its name is not its."""


class Catalog:
    """The fold of the catalog's log."""

    def __init__(self, kept: Iterable[Kept] = ()) -> None:
        self._kept: dict[tuple[str, str], Kept] = {}
        self._newer: set[str] = set()
        """Queues that only a newer release understands."""
        for each in kept:
            self._keep(each)

    def apply(self, entry: Entry) -> bool:
        """Take a record in; False if another one had won already."""
        before = self._kept.get((entry.kind, entry.name))
        if entry.version != (before.entry.version if before else 0) + 1:
            return False
        goes_on = before is not None and before.entry.exists
        self._keep(Kept(entry, before.made if before and goes_on else entry.version))
        return True

    def _keep(self, kept: Kept) -> None:
        entry = kept.entry
        if not entry.value:
            kept = Kept(replace(entry, value=encode(entry)), kept.made)
        self._kept[entry.kind, entry.name] = kept
        if entry.kind == QUEUE:
            (self._newer.add if entry.newer else self._newer.discard)(entry.name)

    def kept(self) -> tuple[Kept, ...]:
        """What is in force, also of what was deleted: its version counts on."""
        return tuple(self._kept.values())

    def owner(self) -> str:
        """Who runs the tracker; empty if nobody ever did."""
        found = self._kept.get((TRACKER, TRACKER))
        return found.entry.owner if found else ""

    def take_over(self, owner: str) -> Entry:
        """The record that makes this one run the tracker, if it is the first."""
        return Entry(TRACKER, TRACKER, self.version(TRACKER, TRACKER) + 1, owner=owner)

    def record(self, kind: str, name: str) -> Entry | None:
        """The record in force; None if there never was one."""
        found = self._kept.get((kind, name))
        return found.entry if found else None

    def version(self, kind: str, name: str) -> int:
        found = self.record(kind, name)
        return found.version if found else 0

    def queue_version(self, name: str) -> int:
        """Of the queue's record. To be asked for before what it says, where both are to go
        together: the catalog of a process follows the log at any time."""
        return self.version(QUEUE, name)

    def made(self, queue: str) -> int:
        """The version that made the queue; 0 if there is none."""
        found = self._kept.get((QUEUE, queue))
        return found.made if found and found.entry.exists else 0

    def all_made(self) -> dict[str, int]:
        """Every queue there is, with the version that made it."""
        there = [kept for (kind, _), kept in list(self._kept.items()) if kind == QUEUE]
        return {kept.entry.name: kept.made for kept in there if kept.entry.exists}

    # Queues.

    def queue(self, name: str) -> QueueDefinition | None:
        """The queue's definition; None if there is no such queue."""
        if name in self._newer:
            raise _newer_error(name)
        found = self._kept.get((QUEUE, name))
        return found.entry.definition if found else None

    def is_newer(self, topic: str) -> bool:
        """Whether this belongs to a queue that only a newer release understands: then nothing of it
        is changed, deleted or buried here."""
        return bool(self._newer) and not self._newer.isdisjoint((topic, names.home(topic)))

    def definition_of(self, subject: Subject) -> QueueDefinition | None:
        """The definition that counts for these messages; None: their queue was deleted."""
        if self._newer and self.is_newer(subject.topic):
            raise _newer_error(subject.queue)
        return DEAD_LETTERS if subject.is_letters else self.queue(subject.topic)

    def queues(self) -> Iterator[str]:
        """The names of all queues, sorted."""
        return (
            name
            for (kind, name), kept in sorted(self._kept.items())
            if kind == QUEUE and kept.entry.exists
        )

    def definitions(self) -> Iterator[tuple[str, QueueDefinition]]:
        """All queues that this release understands, in no order."""
        for (kind, name), kept in list(self._kept.items()):
            if kind == QUEUE and kept.entry.definition is not None:
                yield name, kept.entry.definition

    def change(self, name: str, definition: QueueDefinition | None, topic_id: str = "") -> Entry:
        """The record that would change the queue, if it is the first; one that deletes it says
        which topic goes with it."""
        return Entry(QUEUE, name, self.version(QUEUE, name) + 1, definition, topic_id=topic_id)

    def deleted_topic(self, name: str) -> str:
        """The id of the topic that was to go with the last queue of this name; "" if that is not
        known."""
        found = self.record(QUEUE, name)
        return found.topic_id if found else ""

    # Ordered groups.

    def groups(self) -> Iterator[tuple[str, str]]:
        """Queue and name of every group of a queue that there is, sorted."""
        return (_place(kept) for kept in self._groups() if self._is_its_queues(kept))

    def leftover_groups(self) -> Iterator[tuple[str, str]]:
        """Of every group whose queue was deleted, or that is being deleted itself."""
        return (_place(kept) for kept in self._groups() if not self._is_its_queues(kept))

    def is_leftover(self, queue: str, group: str) -> bool:
        """Whether what is there under this group's name is an earlier queue's."""
        found = self._kept.get((GROUP, f"{queue}/{group}"))
        return found is not None and found.entry.exists and not self._is_its_queues(found)

    def knows_group(self, queue: str, group: str) -> bool:
        """Whether there is a record of this name, be it a leftover's."""
        found = self.record(GROUP, f"{queue}/{group}")
        return found is not None and found.exists

    def group_version(self, queue: str, group: str) -> int:
        """Of the group's record."""
        return self.version(GROUP, f"{queue}/{group}")

    def has_group(self, queue: str, group: str) -> bool:
        """Whether the group is recorded as one of the queue."""
        found = self._kept.get((GROUP, f"{queue}/{group}"))
        return found is not None and found.entry.exists and self._is_its_queues(found)

    def record_group(self, queue: str, group: str) -> Entry:
        """The record that says that the queue has this group."""
        return self._group_entry(queue, group, self.made(queue))

    def give_up_group(self, queue: str, group: str) -> Entry:
        """The record after which the group is nobody's: its topics may go."""
        return self._group_entry(queue, group, 0)

    def forget_group(self, queue: str, group: str) -> Entry:
        """The record that says that nothing of the group is left."""
        return self._group_entry(queue, group, None)

    def is_newer_group(self, queue: str, group: str) -> bool:
        """Whether only a newer release understands what belongs to the group."""
        found = self.record(GROUP, f"{queue}/{group}")
        return found is not None and found.newer

    def refuse_newer_group(self, queue: str, group: str) -> None:
        if self.is_newer_group(queue, group):
            raise ConfigError(
                f"group {group!r} of {queue!r} was made by a newer marq: upgrade this one to use it"
            )

    def _group_entry(self, queue: str, group: str, queue_version: int | None) -> Entry:
        name = f"{queue}/{group}"
        self.refuse_newer_group(queue, group)
        version = self.version(GROUP, name) + 1
        return Entry(GROUP, name, version, queue_version=queue_version)

    # Producer groups.

    def producer_group(self, name: str) -> tuple[str, int] | None:
        """The queue of a producer group, and the version that made it; None: there is none, or its
        queue was deleted since."""
        found = self.record(PRODUCER_GROUP, name)
        if found is None or found.queue_version is None:
            return None
        is_its = self.made(found.queue) == found.queue_version
        return (found.queue, found.queue_version) if is_its else None

    def producer_groups(self) -> Iterator[tuple[str, str]]:
        """Every producer group with its queue, sorted by name."""
        for kind, name in sorted(self._kept):
            if kind == PRODUCER_GROUP and (found := self.producer_group(name)):
                yield name, found[0]

    def leftover_producer_groups(self) -> Iterator[str]:
        """Those whose queue was deleted."""
        for (kind, name), kept in sorted(self._kept.items()):
            recorded = kind == PRODUCER_GROUP and kept.entry.queue_version is not None
            if recorded and self.producer_group(name) is None:
                yield name

    def record_producer_group(self, name: str, queue: str) -> Entry:
        """The record that says that the queue has this producer group."""
        return self._producer_group_entry(name, queue, self.made(queue))

    def forget_producer_group(self, name: str) -> Entry:
        """The record that says that there is no such group any more."""
        return self._producer_group_entry(name, "", None)

    def _producer_group_entry(self, name: str, queue: str, made: int | None) -> Entry:
        found = self.record(PRODUCER_GROUP, name)
        if found is not None and found.newer:
            raise ConfigError(
                f"producer group {name!r} was made by a newer marq: upgrade this one to use it"
            )
        version = self.version(PRODUCER_GROUP, name) + 1
        return Entry(PRODUCER_GROUP, name, version, queue_version=made, queue=queue)

    def _groups(self) -> Iterator[Kept]:
        for (kind, name), kept in sorted(self._kept.items()):
            if kind == GROUP and kept.entry.exists and "/" in name:
                yield kept

    def _is_its_queues(self, kept: Kept) -> bool:
        """One that only a newer release understands counts as the queue's: it is left alone."""
        queue_version = kept.entry.queue_version
        return kept.entry.newer or queue_version == (self.made(_place(kept)[0]) or -1)


def _place(kept: Kept) -> tuple[str, str]:
    queue, _, group = kept.entry.name.rpartition("/")
    return queue, group


def _newer_error(queue: str) -> ConfigError:
    return ConfigError(f"queue {queue!r} was made by a newer marq: upgrade this one to use it")
