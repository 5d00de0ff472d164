"""A message as a log holds it."""

from __future__ import annotations

from msgspec import Struct

from marq.core import names
from marq.core.markers.wire import LATEST_MS
from marq.core.messages import header
from marq.core.messages.header import Headers, Meta

ANY_PARTITION = -1
"""The one that the key chooses."""


class Outgoing(Struct, frozen=True, gc=False):
    """A record to be written."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Stored(Struct, frozen=True, gc=False):
    """A record that was written: where, and when by the log's clock."""

    topic: str
    partition: int
    offset: int
    at_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def address(self) -> str:
        return f"{self.topic}:{self.partition}:{self.offset}"

    def meta(self) -> Meta:
        """What its `marq` header says."""
        return header.split(self.headers)[0]

    def user_headers(self) -> Headers:
        return header.split(self.headers)[1]

    def message_id(self) -> str:
        meta = self.meta()
        return meta.message_id or meta.origin or self.address


PURGED_AT = "at_ms"
"""Beside the offsets of a purge: when the latest record it voided was appended. A later one below
such an offset lies in a topic that was made again."""


def is_void(stored: Stored, purged: dict[str, int]) -> bool:
    """Whether a purge of its queue voided it: the record itself, or the one first sent."""
    if not purged:
        return False
    meta, until_ms = stored.meta(), purged.get(PURGED_AT, LATEST_MS)
    if stored.at_ms <= until_ms and _is_below(stored.address, purged):
        return True
    if not meta.sent_ms and names.is_delayed(meta.origin.rsplit(":", 2)[0]):
        return False  # a half message's final: sent when that is committed, wherever the half lies
    return (meta.sent_ms or stored.at_ms) <= until_ms and _is_below(meta.origin, purged)


_DIGITS = 19
"""Of the highest offset."""


def _is_below(address: str, purged: dict[str, int]) -> bool:
    """Whether it is an address below what was purged: any producer may have written it."""
    where, _, offset = address.rpartition(":")
    is_number = offset.isascii() and offset.isdigit() and len(offset) <= _DIGITS
    return is_number and where in purged and int(offset) < purged[where]
