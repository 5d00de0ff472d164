"""The options of a group as users write them."""

from __future__ import annotations

from collections import abc
from collections.abc import Callable, Iterable
from typing import Any, Literal, Required, TypedDict

from marq.core.duration import Duration, milliseconds
from marq.errors import ConfigError
from marq.groups.config import Filter, Mapping


class PartitioningFilter(TypedDict, total=False):
    """Which messages of a queue a group takes, and what of their subject is the key."""

    filter: Required[str]
    partitioning_wildcards: Iterable[int]


class GroupOptions(TypedDict, total=False):
    """All options of an ordered group."""

    max_members: int
    """How many members there can be, and partitions there are; needed to create one."""
    members: Iterable[str]
    """Who shares the partitions."""
    mappings: abc.Mapping[str, Iterable[int]]
    """Or outright: which partitions each member has."""
    kind: Literal["elastic", "static"]
    """Static: reads the queue itself, with a fixed membership."""
    partitioning_filters: Iterable[PartitioningFilter]
    """Which messages it takes, and what of their subject is the key; all, by their keys."""
    max_buffered_msgs: int
    """Copying stops while as many wait; 0: never."""
    max_buffered_bytes: int
    """Copying stops while as much waits; 0: never."""
    allocation: Literal["even", "sticky"]
    """Sticky: as little as can be moves when members change."""
    ack_wait: Duration
    """How long a delivery may take; 5 seconds."""
    max_ack_pending: int
    """How many may be handed out and not acked; 1."""
    pending_per: Literal["member", "partition"]
    """Whose that number is."""
    max_deliver: int
    """Deliveries of a message before it is a dead letter; 5, 0: no limit."""
    lease: Duration
    """Silence of an instance until another takes over; 2 seconds, with several brokers 5."""
    router: Literal["members", "spark"]
    """Who copies the queue's messages to the group's topic."""


def config_fields(options: abc.Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a config these options ask for."""
    fields: dict[str, Any] = {}
    for option, value in options.items():
        if option not in _OPTIONS:
            raise ConfigError(f"a group has no option {option!r}: there are {', '.join(_OPTIONS)}")
        field, check = _OPTIONS[option]
        fields[field] = check(value)
    return fields


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"a whole number is needed, not {value!r}")
    return value


def _one_of(*allowed: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in allowed:
            raise ConfigError(f"{value!r} is none of {', '.join(allowed)}")
        return str(value)

    return check


def _names(members: Iterable[str]) -> tuple[str, ...]:
    if isinstance(members, str):
        raise ConfigError(f"members is a list of names, not the text {members!r}")
    return tuple(name for name in members if name)


def mappings_of(mappings: abc.Mapping[str, Iterable[int]]) -> tuple[Mapping, ...]:
    """The partitions of each member, as a config has them."""
    return tuple(Mapping(member, tuple(partitions)) for member, partitions in mappings.items())


def _filters(filters: Iterable[abc.Mapping[str, Any]]) -> tuple[Filter, ...]:
    return tuple(
        Filter(each["filter"], tuple(each.get("partitioning_wildcards", ()))) for each in filters
    )


def _duration(name: str) -> Callable[[Duration], int]:
    return lambda value: milliseconds(value, name)


_OPTIONS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "max_members": ("max_members", _number),
    "members": ("members", _names),
    "mappings": ("member_mappings", mappings_of),
    "kind": ("kind", _one_of("elastic", "static")),
    "partitioning_filters": ("partitioning_filters", _filters),
    "max_buffered_msgs": ("max_buffered_msgs", _number),
    "max_buffered_bytes": ("max_buffered_bytes", _number),
    "allocation": ("allocation", _one_of("even", "sticky")),
    "ack_wait": ("ack_wait_ms", _duration("ack_wait")),
    "max_ack_pending": ("max_ack_pending", _number),
    "pending_per": ("pending_per", _one_of("member", "partition")),
    "max_deliver": ("max_deliver", _number),
    "lease": ("lease_ms", _duration("lease")),
    "router": ("router", _one_of("members", "spark")),
}
