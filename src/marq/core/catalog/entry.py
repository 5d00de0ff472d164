"""The catalog's records: what each says, and how it is written.

A record may be a newer release's. Its kind, name and version count whatever its definition says,
and it is kept and handed on as its bytes: who took it for no record would take the queue for
deleted, and bury its messages.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import asdict, replace

from marq.core import duration, names
from marq.core.catalog import json_depth
from marq.errors import ConfigError

MOST_BYTES = 500_000
"""Of a record: a broker refuses one of a megabyte, and a snapshot must be able to carry it."""
MOST_DEEP = 32

_Ms = Annotated[int, Meta(ge=0, le=1 << 48)]
_Positive = Annotated[int, Meta(ge=1, le=1 << 48)]


class QueueDefinition(Struct, frozen=True, forbid_unknown_fields=True):
    """The options of a queue, as the catalog holds them.

    Only what differs from these defaults is written. They are part of the format: a default that
    changed would change every queue that was made with it.
    """

    lease_ms: _Positive = 30_000
    max_attempts: _Positive = 5
    backoff_ms: tuple[_Ms, _Ms] = (1_000, 300_000)
    dead_letter: bool = True
    ttl_ms: _Positive | None = None
    priorities: int = 1
    partitions: Annotated[int, Meta(ge=1, le=100_000)] = 4
    lane: bool = False
    retention_ms: _Ms = 0
    paused: bool = False
    purged: dict[str, Annotated[int, Meta(ge=0, le=1 << 62)]] = {}
    """By topic:partition, the offset below which everything sent is void."""


DEFAULTS = QueueDefinition()
DEAD_LETTERS = QueueDefinition(max_attempts=1 << 30, dead_letter=False, partitions=1)
"""How a queue of dead letters behaves: nothing dies twice, and what is rejected is gone."""


QUEUE = "queue"
TRACKER = "tracker"
"""Kind and name of the record that says who runs the tracker."""
GROUP = "group"
"""An ordered group of a queue, by `<queue>/<group>`; what it is like stands in its control log."""


PRODUCER_GROUP = "producer-group"
"""Those who are asked about half messages of one queue."""


class NotAnEntry(ValueError):
    """The record is none of the catalog's: anyone may write to a topic."""


class Entry(Struct, frozen=True):
    """One record of the catalog's log."""

    kind: str
    name: str
    version: int
    definition: QueueDefinition | None = None
    """Of a queue; None: it was deleted, or a newer release defined it."""
    owner: str = ""
    """Of a tracker's record: who runs it now."""
    queue_version: int | None = None
    """Of a group: the version that made its queue. A queue made again has another."""
    queue: str = ""
    """Of a producer group: whose half messages its members are asked about."""
    topic_id: str = ""
    """Of a deleted queue: its topic's. One that is still there was to be deleted with it."""
    newer: bool = False
    """It has a definition, which this release cannot read."""
    value: bytes = b""
    """The record itself: this is what is handed on."""

    @property
    def exists(self) -> bool:
        """Whether it says that there is such a thing, and not that it was deleted."""
        return self.newer or self.definition is not None or self.queue_version is not None


class _Head(Struct):
    """What every record of the catalog has, whatever release wrote it."""

    kind: str
    name: str
    version: Annotated[int, Meta(ge=1, le=1 << 53)]
    definition: Raw = Raw(b"")
    owner: str = ""
    topic_id: str = ""


class _GroupDefinition(Struct, forbid_unknown_fields=True):
    queue_version: Annotated[int, Meta(ge=0, le=1 << 53)]


class _ProducerGroupDefinition(Struct, forbid_unknown_fields=True):
    queue: str
    queue_version: Annotated[int, Meta(ge=0, le=1 << 53)]


_head = msgspec.json.Decoder(_Head)
_queue = msgspec.json.Decoder(QueueDefinition)
_group = msgspec.json.Decoder(_GroupDefinition)
_producer_group = msgspec.json.Decoder(_ProducerGroupDefinition)


def encode(entry: Entry) -> bytes:
    """The record's value: JSON, for people read the catalog too."""
    fields: dict[str, Any] = {"kind": entry.kind, "name": entry.name, "version": entry.version}
    if entry.definition is not None:
        fields["definition"] = _written(entry.definition)
    if entry.queue_version is not None:
        about = {"queue": entry.queue} if entry.queue else {}
        fields["definition"] = {**about, "queue_version": entry.queue_version}
    if entry.owner:
        fields["owner"] = entry.owner
    if entry.topic_id:
        fields["topic_id"] = entry.topic_id
    value = msgspec.json.encode(fields)
    if len(value) > MOST_BYTES:
        raise ConfigError(
            f"the catalog's record of {entry.kind} {entry.name!r} would have {len(value):,} bytes, "
            f"{MOST_BYTES:,} at most: a purged queue has an offset in it for each partition, "
            f"so use fewer partitions"
        )
    return value


def _written(definition: QueueDefinition) -> dict[str, Any]:
    """Without what is as usual: an option that only a newer release knows is in its way only where
    someone uses it."""
    usual = asdict(DEFAULTS)
    return {name: it for name, it in asdict(definition).items() if it != usual[name]}


def decode(value: bytes | None) -> Entry:
    """The entry this record is; `NotAnEntry` on anything else."""
    if value is None:
        raise NotAnEntry("a record without a value")
    if len(value) > MOST_BYTES:
        raise NotAnEntry(f"{len(value):,} bytes: {MOST_BYTES:,} at most, for a snapshot carries it")
    if json_depth.is_deeper(value, MOST_DEEP):
        raise NotAnEntry(f"nested more than {MOST_DEEP} deep")
    try:
        value.decode()  # what is carried on inside another record must be text
        head = _head.decode(value)
        _check_name(head)
    except (msgspec.MsgspecError, ConfigError, ValueError) as error:
        raise NotAnEntry(str(error)) from None
    return _entry(head, value)


def _check_name(head: _Head) -> None:
    """A queue's name is a topic's, and nobody's else; so is a group's, beside its queue's."""
    if head.kind == QUEUE:
        names.queue_name(head.name)
    if head.kind == GROUP:
        queue, _, group = head.name.rpartition("/")
        names.queue_name(queue)
        if not group or "." in group or not names.is_topic(f"{queue}.group.{group}.control"):
            raise NotAnEntry(f"{group!r} is no group's name")
    if head.kind == PRODUCER_GROUP:
        names.producer_group(head.name)
    bytes.fromhex(head.topic_id)  # a ValueError if it is none


def _entry(head: _Head, value: bytes) -> Entry:
    entry = Entry(
        head.kind,
        head.name,
        head.version,
        owner=head.owner,
        topic_id=head.topic_id,
        value=value,
    )
    written = bytes(head.definition)
    if written in (b"", b"null"):
        return entry
    try:
        if head.kind == QUEUE:
            return replace(entry, definition=_understood(written))
        if head.kind == GROUP:
            return replace(entry, queue_version=_group.decode(written).queue_version)
        if head.kind == PRODUCER_GROUP:
            found = _producer_group.decode(written)
            queue = names.queue_name(found.queue)
            return replace(entry, queue=queue, queue_version=found.queue_version)
    except (msgspec.MsgspecError, ConfigError, ValueError):
        pass  # said by a newer release
    return replace(entry, newer=True)


def _understood(written: bytes) -> QueueDefinition:
    found = _queue.decode(written)
    # These two fields are known and what they ask for is not built: a queue that has them has
    # topics this release would take for those of deleted queues.
    if found.lane or found.priorities != DEFAULTS.priorities:
        raise ValueError("lanes and priorities are a newer release's")
    return found


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
