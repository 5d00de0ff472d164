"""A record of a hold log as the fold takes it: a marker, a parked message, or nothing of ours."""

from __future__ import annotations

from marq.core import codec, header, names
from marq.core.marker import Marker, Parked
from marq.errors import MalformedMarker, NotAMarker


def body(topic: str, value: bytes | None, first_header: bytes | None) -> Marker | Parked | None:
    """What the record says; `UnknownMarkerVersion` if a newer version wrote it.

    Beside parked messages, a record with headers is a message and one without is a marker,
    whatever its bytes: a payload may look like anything.
    """
    try:
        if first_header is None or topic == names.MARKERS:
            return codec.decode(value or b"")
        return header.parked(header.decode(first_header))
    except (NotAMarker, MalformedMarker):
        return None
