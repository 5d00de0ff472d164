"""The catalog: definitions of queues, and the rule by which they change.

A change is a record with version + 1, and the first in log order wins; so two who change at once
cannot both win, and everyone who reads the log agrees on who did.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from marq.core import duration, names


class QueueDefinition(Struct, frozen=True, forbid_unknown_fields=True):
    """The options of a queue, as the catalog holds them."""

    lease_ms: int = 30_000
    max_attempts: int = 5
    backoff_ms: tuple[int, int] = (1_000, 300_000)
    dead_letter: bool = True
    ttl_ms: int | None = None
    priorities: int = 1
    partitions: int = 4
    lane: bool = False
    retention_ms: int = 0
    paused: bool = False
    purged: dict[str, int] = {}
    """By topic:partition, the offset below which everything sent is void."""


DEAD_LETTERS = QueueDefinition(max_attempts=1 << 30, dead_letter=False, partitions=1)
"""How a queue of dead letters behaves: nothing dies twice, and what is rejected is gone."""


TRACKER = "tracker"
"""Kind and name of the record that says who runs the tracker."""


class Entry(Struct, frozen=True, omit_defaults=True):
    """One record of the catalog's log. No definition: the thing was deleted."""

    kind: str
    name: str
    version: int
    definition: QueueDefinition | None = None
    owner: str = ""
    """Of a tracker's record: who runs it now."""


class Catalog:
    """The fold of the catalog's log."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], Entry] = {}

    def apply(self, entry: Entry) -> bool:
        """Take a record in; False if another one had won already."""
        if entry.version != self.version(entry.kind, entry.name) + 1:
            return False
        self._entries[entry.kind, entry.name] = entry
        return True

    def adopt(self, entry: Entry) -> None:
        """Take over what another catalog knows."""
        self._entries[entry.kind, entry.name] = entry

    def entries(self) -> tuple[Entry, ...]:
        """What is in force, to be adopted elsewhere."""
        return tuple(self._entries.values())

    def owner(self) -> str:
        """Who runs the tracker; empty if nobody ever did."""
        entry = self._entries.get((TRACKER, TRACKER))
        return entry.owner if entry else ""

    def take_over(self, owner: str) -> Entry:
        """The record that makes this one run the tracker, if it is the first."""
        return Entry(TRACKER, TRACKER, self.version(TRACKER, TRACKER) + 1, owner=owner)

    def version(self, kind: str, name: str) -> int:
        entry = self._entries.get((kind, name))
        return entry.version if entry else 0

    def queue(self, name: str) -> QueueDefinition | None:
        """The queue's definition; None if there is no such queue."""
        entry = self._entries.get(("queue", name))
        return entry.definition if entry else None

    def of_topic(self, topic: str) -> QueueDefinition | None:
        """The definition of a queue, or of a queue's dead letters."""
        return DEAD_LETTERS if names.is_dead_letters(topic) else self.queue(topic)

    def queues(self) -> Iterator[str]:
        """The names of all queues, sorted."""
        return (
            name
            for (kind, name), entry in sorted(self._entries.items())
            if kind == "queue" and entry.definition
        )

    def change(self, name: str, definition: QueueDefinition | None) -> Entry:
        """The record that would change the queue, if it is the first."""
        return Entry("queue", name, self.version("queue", name) + 1, definition)


def encode(entry: Entry) -> bytes:
    """The record's value: JSON, for people read the catalog too."""
    return msgspec.json.encode(entry)


def decode(value: bytes) -> Entry:
    """The entry this record is; raises msgspec's errors on anything else."""
    return msgspec.json.decode(value, type=Entry)


def differences(stored: QueueDefinition, wanted: dict[str, Any]) -> list[str]:
    """How the options asked for differ from the stored ones, one sentence each."""
    have = asdict(stored)
    return [
        f"{name.removesuffix('_ms')} is {_shown(name, have[name])}, not {_shown(name, value)}"
        for name, value in wanted.items()
        if have[name] != value
    ]


def _shown(name: str, value: Any) -> str:
    if not name.endswith("_ms") or value is None:
        return repr(value)
    if isinstance(value, tuple):
        return repr(tuple(duration.text(part) for part in value))
    return repr(duration.text(value))
