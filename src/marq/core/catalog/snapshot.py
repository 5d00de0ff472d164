"""Snapshots: what the catalog was as of an offset, written into its own log.

What lies below that offset may then be trimmed. A snapshot is one record or several parts, none
above the size that a record of the catalog may have. Every entry in force is in it, also of what
was deleted, for versions count on; as the bytes it was read as, in a text, for whoever writes the
snapshot may not understand it, and nesting it would make it deeper than it was.

Anyone may write one at any time: it says by itself which records it stands for. Two who do it at
once are in nobody's way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from marq.core.catalog import definitions
from marq.core.catalog.definitions import Kept, NotAnEntry

KIND = "snapshot"
_MOST_PARTS = 100_000
_ROOM = 1_000
"""Bytes a part has beside its entries."""


class SnapshotPart(Struct, frozen=True):
    """A record of a snapshot."""

    kind: str
    name: str
    """Tells the parts of one snapshot from those of another."""
    as_of: Annotated[int, Meta(ge=0, le=1 << 62)]
    """The offset from which on records count beside the snapshot."""
    part: Annotated[int, Meta(ge=0, lt=_MOST_PARTS)]
    parts: Annotated[int, Meta(ge=1, le=_MOST_PARTS)]
    entries: list[tuple[int, str]]
    """By what version each was made, and its record."""
    version: int = 0
    """A release that knows no snapshots takes this for an entry that has lost."""


_decoder = msgspec.json.Decoder(SnapshotPart)


def split(
    kept: Iterable[Kept], as_of: int, name: str, most_bytes: int = definitions.MOST_BYTES
) -> list[bytes]:
    """The records that say what was in force as of that offset."""
    texts = [(each.made, each.entry.value.decode()) for each in kept]
    groups = list(_grouped(texts, most_bytes - _ROOM)) or [[]]
    return [
        msgspec.json.encode(SnapshotPart(KIND, name, as_of, number, len(groups), group))
        for number, group in enumerate(groups)
    ]


def _grouped(texts: list[tuple[int, str]], most_bytes: int) -> Iterator[list[tuple[int, str]]]:
    group: list[tuple[int, str]] = []
    size = 0
    for each in texts:
        own = len(msgspec.json.encode(each)) + 1
        if group and size + own > most_bytes:
            yield group
            group, size = [], 0
        group.append(each)
        size += own
    if group:
        yield group


def part_of(value: bytes | None) -> SnapshotPart | None:
    """The part of a snapshot that this record is; None if it is none."""
    if value is None or f'"{KIND}"'.encode() not in value[:100]:
        return None  # quick: nearly all records are none
    try:
        found = _decoder.decode(value)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
    return found if found.kind == KIND and found.part < found.parts else None


class Whole(Struct, frozen=True):
    """A snapshot all of whose parts were read."""

    as_of: int
    at_ms: int
    """When the last of its parts was written."""
    kept: tuple[Kept, ...]


class Parts:
    """Puts snapshots together."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, int, int], dict[int, SnapshotPart]] = {}

    def take(self, offset: int, at_ms: int, part: SnapshotPart) -> Whole | None:
        """The snapshot that this part makes whole, if it does."""
        if part.as_of > offset:
            return None  # forged: nobody knows what will be written
        key = (part.name, part.as_of, part.parts)
        found = self._open.setdefault(key, {})
        found[part.part] = part
        if len(found) < part.parts:
            return None
        del self._open[key]
        try:
            kept = tuple(
                Kept(definitions.decode(value.encode()), made)
                for number in range(part.parts)
                for made, value in found[number].entries
            )
        except (NotAnEntry, ValueError):
            return None  # forged, too: each was an entry when it was taken in
        # What older snapshots still lack is gone, or will never come.
        self._open = {key: parts for key, parts in self._open.items() if key[1] > part.as_of}
        return Whole(part.as_of, at_ms, kept)
