"""The `marq` header: what must be said about a message, in one binary header, the first.

A plain send has none. Fields are tagged and only written where they differ from the default; a
reader skips tags it does not know, so that fields can be added.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from marq.core.marker import Parked
from marq.core.reason import cleaned
from marq.core.wire import Reader, Writer
from marq.errors import MalformedMarker

NAME = "marq"
VERSION = 1
HISTORY = 10
"""Past attempts a message remembers."""

Headers = tuple[tuple[str, bytes | None], ...]


class Past(Struct, frozen=True, gc=False):
    """One attempt that did not end in an ack."""

    attempt: int
    at_ms: int
    worker: str
    reason: str

    @property
    def at(self) -> datetime:
        """When it ended, by the log's clock."""
        return datetime.fromtimestamp(self.at_ms / 1_000, UTC)


class Meta(Struct, frozen=True, gc=False):
    """What the header says. Delay and TTL count from the append time of the record they are in;
    a copy replaces them by absolute times."""

    message_id: str = ""
    queue: str = ""
    """On a lane or parked: the queue it is for."""
    attempt: int = 1
    copies: int = 0
    delay_ms: int = 0
    due_ms: int = 0
    ahead_ms: int = 0
    ttl_ms: int = 0
    expires_ms: int = 0
    origin: str = ""
    """topic:partition:offset of the record first sent; empty: this one is it."""
    sent_ms: int = 0
    suspect: bool = False
    """Its last delivery was kept alive and ended by expiry: it may have killed its process."""
    history: tuple[Past, ...] = ()

    def due_at(self, at_ms: int) -> int:
        """When it may be handed out, appended at `at_ms`; 0: at once."""
        return at_ms + self.delay_ms if self.delay_ms else self.due_ms

    def expires_at(self, at_ms: int) -> int:
        """When it is no longer wanted; 0: never."""
        return at_ms + self.ttl_ms if self.ttl_ms else self.expires_ms


PLAIN = Meta()

_NUMBERS = {
    1: "attempt",
    2: "copies",
    3: "delay_ms",
    4: "due_ms",
    5: "ahead_ms",
    6: "ttl_ms",
    7: "expires_ms",
    8: "sent_ms",
    9: "suspect",
}
_TEXTS = {1: "message_id", 2: "queue", 3: "origin"}
_HISTORY = 4


def encode(meta: Meta) -> bytes:
    """The header's value. A tag's low bit tells a number (0) from bytes with a length (1)."""
    out = Writer(bytes((VERSION,)))
    for tag, name in _NUMBERS.items():
        value = getattr(meta, name)
        if value != getattr(PLAIN, name):
            out.numbers((tag << 1, int(value)))
    for tag, name in _TEXTS.items():
        if text := getattr(meta, name):
            out.number(tag << 1 | 1)
            out.text(text)
    if meta.history:
        out.number(_HISTORY << 1 | 1)
        out.blob(_history_bytes(meta.history))
    return out.bytes()


def decode(data: bytes) -> Meta:
    """What the header's value says; `MalformedMarker` if it is not ours."""
    reader = Reader(data, 1)
    if not data or data[0] != VERSION:
        raise MalformedMarker("not a marq header of a known version")
    found: dict[str, Any] = {}
    while not reader.at_end():
        tag = reader.number()
        if tag & 1:
            blob = reader.blob()
            if tag >> 1 in _TEXTS:
                found[_TEXTS[tag >> 1]] = _utf8(blob)
            elif tag >> 1 == _HISTORY:
                found["history"] = _history(blob)
        else:
            value = reader.number()
            if tag >> 1 in _NUMBERS:
                found[_NUMBERS[tag >> 1]] = value
    if "suspect" in found:
        found["suspect"] = bool(found["suspect"])
    return Meta(**found)


def parked(meta: Meta) -> Parked:
    """A parked message as the fold sees it."""
    return Parked(meta.due_ms, meta.delay_ms, meta.ahead_ms, queue=meta.queue)


def split(headers: Headers) -> tuple[Meta, Headers]:
    """What marq says of the message, and the user's headers as they were.

    A first header called `marq` that is not ours is the user's: the message is a plain one.
    """
    if headers and headers[0][0] == NAME and headers[0][1]:
        try:
            return decode(headers[0][1]), headers[1:]
        except MalformedMarker:
            return PLAIN, headers
    return PLAIN, headers


def join(meta: Meta, headers: Headers) -> Headers:
    """The record's headers: ours first, unless there is nothing to say."""
    return headers if meta == PLAIN else ((NAME, encode(meta)), *headers)


def remember(history: tuple[Past, ...], *more: Past) -> tuple[Past, ...]:
    """The history with more attempts; the oldest give way, reasons are cut."""
    cut = (Past(each.attempt, each.at_ms, each.worker, cleaned(each.reason)) for each in more)
    return (*history, *cut)[-HISTORY:]


def _history_bytes(history: tuple[Past, ...]) -> bytes:
    out = Writer()
    out.number(len(history))
    for past in history:
        out.numbers((past.attempt, past.at_ms))
        out.text(past.worker)
        out.text(past.reason)
    return out.bytes()


def _history(blob: bytes) -> tuple[Past, ...]:
    data = Reader(blob)
    history = tuple(
        Past(data.number(), data.number(), data.text(), data.text()) for _ in range(data.count())
    )
    data.end()
    return history


def _utf8(blob: bytes) -> str:
    try:
        return blob.decode()
    except UnicodeDecodeError:
        raise MalformedMarker("a text is not UTF-8") from None
