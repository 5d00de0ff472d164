"""What the control log and the lease topic of a group hold: JSON, for people read them too."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct

from marq.core.catalog import json_depth
from marq.errors import ConfigError
from marq.groups.config import GroupConfig, checked

MOST_DEEP = 20
"""Objects and arrays of a record that lie in one another; ours have five at most."""


class ConfigRecord(Struct, frozen=True, tag="config", tag_field="record"):
    """A change of the config; valid iff its version is the current one + 1."""

    id: str
    version: int
    config: GroupConfig
    deleted: bool = False
    """The group is no more: instances end."""
    sources: tuple[int, ...] = ()
    """By partition of the queue, where copying starts."""


class HoldingRecord(Struct, frozen=True, tag="hold", tag_field="record", omit_defaults=True):
    """A member says which partitions it holds; valid iff `prev` is its latest valid hold."""

    claim: str
    """Fresh for each attempt to become the owner."""
    n: int
    """Counts every append of that claim."""
    member: str
    prev: str
    """An id, never an offset; for a member's first hold the group's incarnation id."""
    partitions: tuple[int, ...]
    version: int
    """The config it was made by."""
    instance: str = ""
    proxy: bool = False
    """Written by someone else, who fenced the member: nobody beats for this claim."""

    @property
    def id(self) -> str:
        return f"{self.claim}:{self.n}"


class StepDown(Struct, frozen=True, tag="stepdown", tag_field="record"):
    """Asks the active instance of a member to make way; names its claim, so that a late one cannot
    hit the successor."""

    id: str
    member: str
    claim: str


class LeaseBeat(Struct, frozen=True, tag="lease", tag_field="record", omit_defaults=True):
    """A beat of a member's active instance, in the lease topic; never an input to safety."""

    member: str
    claim: str
    instance: str
    resigned: bool = False


ControlRecord = ConfigRecord | HoldingRecord | StepDown
T = TypeVar("T")
_control: msgspec.json.Decoder[ControlRecord] = msgspec.json.Decoder(ControlRecord)
_lease = msgspec.json.Decoder(LeaseBeat)


def encode(record: ControlRecord | LeaseBeat) -> bytes:
    """The record's value."""
    return msgspec.json.encode(record)


def decode(value: bytes | None) -> ControlRecord | None:
    """The control record; None if it is none, for anyone may write to a topic.

    Whoever reads it must come to the same answer, so nothing here depends on the reader.
    """
    found = _decoded(_control, value or b"")
    if isinstance(found, ConfigRecord):
        try:
            checked(found.config)
        except ConfigError:
            return None  # nobody who made it by the rules wrote it
    return found


def decode_lease(value: bytes | None) -> LeaseBeat | None:
    """The lease record; None if it is none."""
    return _decoded(_lease, value or b"")


def _decoded(decoder: msgspec.json.Decoder[T], value: bytes) -> T | None:
    if json_depth.is_deeper(value, MOST_DEEP):
        return None
    try:
        return decoder.decode(value)
    except (msgspec.MsgspecError, ValueError):  # a text that is no UTF-8 is an error of Python's
        return None
