"""A record of a hold log as the fold takes it: a marker, a parked message, or nothing of ours."""

from __future__ import annotations

from collections.abc import Callable

from marq.core import names
from marq.core.fold.fold import Record
from marq.core.markers import codec
from marq.core.markers.marker import Marker, Parked
from marq.core.messages import header
from marq.core.messages.header import Headers
from marq.errors import MalformedMarker, NotAMarker, UnknownMarkerVersion

RecordPlace = tuple[str, int, int]
"""Topic, partition and offset."""


def refuse(error: UnknownMarkerVersion) -> None:
    """To go on past what a newer version wrote would be to skip what decides about messages."""
    raise error


def record(
    place: RecordPlace,
    at_ms: int,
    value: bytes | None,
    parked: bytes | None,
    newer: Callable[[UnknownMarkerVersion], None] = refuse,
) -> Record:
    """The record as the fold takes it; `parked` is what `said_of_parked` says of its headers.

    `newer` is told of a record that a newer version wrote, and where it lies; if that raises
    nothing, the record is skipped like one that is none of ours.
    """
    topic, partition, offset = place
    try:
        return Record(offset, at_ms, body(topic, value, parked))
    except UnknownMarkerVersion as error:
        newer(UnknownMarkerVersion(f"{topic}[{partition}] at offset {offset}: {error}"))
        return Record(offset, at_ms, None)


def said_of_parked(headers: Headers | None) -> bytes | None:
    """What the first header says of a parked message, nothing if it is not ours; None: a record
    without headers parks none."""
    if not headers:
        return None
    name, value = headers[0]
    return value or b"" if name == header.NAME else b""


def body(topic: str, value: bytes | None, parked: bytes | None) -> Marker | Parked | None:
    """What the record says; `UnknownMarkerVersion` if a newer version wrote it.

    Beside parked messages, a record with headers is a message and one without is a marker,
    whatever its bytes: a payload may look like anything.
    """
    try:
        if parked is None or names.is_markers(topic):
            return codec.decode(value or b"")
        return header.parked(header.decode(parked))
    except (NotAMarker, MalformedMarker):
        return None
