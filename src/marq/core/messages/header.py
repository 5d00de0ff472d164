"""The `marq` header: what must be said about a message, in one binary header, the first.

A plain send has none. Fields are tagged and only written where they differ from the default.
Fields can be added: a reader keeps tags it does not know and writes them again with every copy.

Anybody who may write to a queue may write a header, so nothing in it is believed before it is
bounded: one that says what no marq would say makes the message a plain one.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from marq.core.markers.marker import Action, Parked
from marq.core.markers.reason import cleaned
from marq.core.markers.wire import LATEST_MS, LONGEST_MS, MOST, WireReader, WireWriter
from marq.core.messages import terms
from marq.core.messages.terms import TEXT_BYTES, HalfTerms
from marq.errors import MalformedMarker, MarkerError, UnknownMarkerVersion

NAME = "marq"
VERSION, NEWEST = 1, 2
"""Of most headers, and of half messages': an older tracker must not take one for a delayed message,
so it stops."""
HISTORY = 10
"""Past attempts a message remembers."""
_LAST_YEAR_MS = 253_402_300_799_999
"""The last moment that can be told as a date."""

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
        return moment(self.at_ms)


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
    expired: int = 0
    """How often it came back because a lease was over. That backs off, not how often it was
    copied: what is given back was nobody's fault."""
    half: HalfTerms | None = None
    """Only of a parked half message: no copy has it."""
    unknown: tuple[tuple[int, int | bytes], ...] = ()
    """Tags of a newer marq with their values, in the order they came in: every copy has them."""

    def due_at(self, at_ms: int) -> int:
        """When it may be handed out, appended at `at_ms`; 0: at once."""
        return at_ms + self.delay_ms if self.delay_ms else self.due_ms

    def expires_at(self, at_ms: int) -> int:
        """When it is no longer wanted; 0: never."""
        return at_ms + self.ttl_ms if self.ttl_ms else self.expires_ms


PLAIN = Meta()

_NUMBERS = {
    1: ("attempt", 1, MOST),
    2: ("copies", 0, MOST),
    3: ("delay_ms", 0, LONGEST_MS),
    4: ("due_ms", 0, LATEST_MS),
    5: ("ahead_ms", 0, LONGEST_MS),
    6: ("ttl_ms", 0, LONGEST_MS),
    7: ("expires_ms", 0, LATEST_MS),
    8: ("sent_ms", 0, LATEST_MS),
    9: ("suspect", 0, 1),
    10: ("expired", 0, MOST),
}
"""By tag the field, and the least and the most it may be."""
_WRITTEN = [
    (tag << 1, name, getattr(PLAIN, name), most) for tag, (name, _, most) in _NUMBERS.items()
]
_TEXTS = {1: "message_id", 2: "queue", 3: "origin"}
_HISTORY = 4
_HALF = 6


def encode(meta: Meta) -> bytes:
    """The header's value. A tag's low bit tells a number (0) from bytes with a length (1).

    A number beyond what a reader takes is written as the most that it takes.
    """
    out = WireWriter(bytes((NEWEST if meta.half else VERSION,)))
    for tag, name, plain, most in _WRITTEN:
        value = getattr(meta, name)
        if value != plain:
            out.number(tag)
            out.number(min(int(value), most))
    for tag, name in _TEXTS.items():
        if text := getattr(meta, name):
            out.number(tag << 1 | 1)
            out.text(text)
    if meta.history:
        out.number(_HISTORY << 1 | 1)
        out.blob(_history_bytes(meta.history))
    if meta.half:
        out.number(_HALF << 1 | 1)
        out.blob(terms.encode(meta.half))
    for tag, value in meta.unknown:
        out.number(tag)
        out.blob(value) if isinstance(value, bytes) else out.number(value)
    return out.bytes()


def decode(data: bytes) -> Meta:
    """What the header's value says.

    `UnknownMarkerVersion` if a newer marq may have written it, `MalformedMarker` if it says what
    none would.
    """
    if not data or not VERSION <= data[0] <= NEWEST:
        raise _not_ours(data)
    reader = WireReader(data, 1)
    found: dict[str, Any] = {}
    unknown: list[tuple[int, int | bytes]] = []
    while not reader.at_end():
        tag = reader.number()
        if tag & 1:
            _take_bytes(tag, reader.blob(), found, unknown)
            continue
        value = reader.number()
        if about := _NUMBERS.get(tag >> 1):
            name, least, most = about
            if not least <= value <= most:
                raise MalformedMarker(f"{name} is {value}, not {least} to {most}")
            found[name] = value
        else:
            unknown.append((tag, value))
    if data[0] == NEWEST:
        unknown = _take_half(unknown, found)
    return _meta(found, unknown)


def _meta(found: dict[str, Any], unknown: list[tuple[int, int | bytes]]) -> Meta:
    if unknown:
        found["unknown"] = tuple(unknown)
    if "suspect" in found:
        found["suspect"] = bool(found["suspect"])
    return Meta(**found)


def _not_ours(data: bytes) -> MarkerError:
    if not data or data[0] < VERSION:
        return MalformedMarker("not a marq header")
    return UnknownMarkerVersion(
        f"a header of version {data[0]}, this is version {NEWEST}: upgrade the tracker first"
    )


def _take_bytes(
    tag: int, blob: bytes, found: dict[str, Any], unknown: list[tuple[int, int | bytes]]
) -> None:
    if name := _TEXTS.get(tag >> 1):
        if len(blob) > TEXT_BYTES:
            raise MalformedMarker(f"{name} has {len(blob)} bytes")
        found[name] = _utf8(blob)
    elif tag >> 1 == _HISTORY:
        found["history"] = _history(blob)
    else:
        unknown.append((tag, blob))


def _take_half(
    tags: list[tuple[int, int | bytes]], found: dict[str, Any]
) -> list[tuple[int, int | bytes]]:
    """What the half message says, which is none without it; the tags that are left."""
    said = dict(tags).get(_HALF << 1 | 1)
    if not isinstance(said, bytes):
        raise MalformedMarker("a half message without a producer group")
    found["half"] = terms.decode(said)
    return [(tag, value) for tag, value in tags if tag != _HALF << 1 | 1]


def parked(meta: Meta) -> Parked:
    """A parked message as the fold sees it."""
    if meta.half:
        return Parked(0, meta.half.check_after_ms, action=Action.CHECK, queue=meta.queue)
    return Parked(meta.due_ms, meta.delay_ms, meta.ahead_ms, queue=meta.queue)


def split(headers: Headers) -> tuple[Meta, Headers]:
    """What marq says of the message, and the user's headers as they were.

    A first header called `marq` that is not ours is the user's: the message is a plain one.
    """
    if headers and headers[0][0] == NAME and headers[0][1]:
        try:
            return decode(headers[0][1]), headers[1:]
        except MarkerError:
            return PLAIN, headers
    return PLAIN, headers


def join(meta: Meta, headers: Headers) -> Headers:
    """The record's headers: ours first, unless there is nothing to say."""
    return headers if meta == PLAIN else ((NAME, encode(meta)), *headers)


def remember(history: tuple[Past, ...], *more: Past) -> tuple[Past, ...]:
    """The history with more attempts; the oldest give way, reasons are cut."""
    cut = (Past(each.attempt, each.at_ms, each.worker, cleaned(each.reason)) for each in more)
    return (*history, *cut)[-HISTORY:]


def moment(at_ms: int) -> datetime:
    """A time of the log's clock as a datetime; the last there is for what lies beyond."""
    return datetime.fromtimestamp(min(at_ms, _LAST_YEAR_MS) / 1_000, UTC)


def _history_bytes(history: tuple[Past, ...]) -> bytes:
    out = WireWriter()
    out.number(len(history))
    for past in history:
        out.numbers((min(past.attempt, MOST), min(past.at_ms, LATEST_MS)))
        out.text(cleaned(past.worker))
        out.text(cleaned(past.reason))
    return out.bytes()


def _history(blob: bytes) -> tuple[Past, ...]:
    data = WireReader(blob)
    history = [_past(data) for _ in range(data.count())]
    data.end()
    return tuple(history[-HISTORY:])


def _past(data: WireReader) -> Past:
    return Past(data.most(MOST), data.most(LATEST_MS), cleaned(data.text()), cleaned(data.text()))


def _utf8(blob: bytes) -> str:
    try:
        return blob.decode()
    except UnicodeDecodeError:
        raise MalformedMarker("a text is not UTF-8") from None
