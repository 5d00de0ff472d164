"""Requests: what the members of a producer group are asked about half messages.

They lie in a topic that others may write to: what is read is bounded first.
"""

from __future__ import annotations

from zlib import crc32

from msgspec import Struct

from marq.core.markers.marker import ParkedRef
from marq.core.markers.wire import LATEST_MS, MOST, WireReader, WireWriter
from marq.core.messages.header import NAME, Headers
from marq.core.messages.stored import Outgoing, Stored
from marq.core.messages.terms import TEXT_BYTES
from marq.errors import MalformedMarker

CHECKS_PARTITIONS = 8
_REQUEST = 1
"""The version of a request."""


class Request(Struct, frozen=True, gc=False):
    """A producer group is asked whether the local transaction of a half message has happened."""

    address: str
    """The half message's id."""
    ref: ParkedRef
    partition: int
    """Of the log of parked messages."""
    number: int
    """The number of this request among those about the same half message, from 1."""


def request(stored: Stored, ref: ParkedRef, number: int, topic: str) -> Outgoing:
    """The record that asks about this half message, with its payload and headers."""
    out = WireWriter(bytes((_REQUEST,)))
    out.numbers((*ref, stored.partition, number))
    headers = ((NAME, out.bytes()), *stored.user_headers())
    address = stored.address.encode()
    return Outgoing(topic, crc32(address) % CHECKS_PARTITIONS, address, stored.value, headers)


def requested(key: bytes | None, headers: Headers) -> tuple[Request, Headers]:
    """What a record asks, and the headers of the half message; `MalformedMarker` if it is none."""
    if not headers or headers[0][0] != NAME or not key or len(key) > TEXT_BYTES:
        raise MalformedMarker("no request about a half message")
    said = headers[0][1] or b""
    if not said or said[0] != _REQUEST:
        raise MalformedMarker("a request of another version")
    data = WireReader(said, 1)
    ref = ParkedRef(data.most(LATEST_MS), data.number())
    partition, number = data.most(MOST), data.number()
    data.end()
    try:
        return Request(key.decode(), ref, partition, number), headers[1:]
    except UnicodeDecodeError:
        raise MalformedMarker("an address is not UTF-8") from None
