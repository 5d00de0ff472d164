"""The config of an ordered group, and the rules it must keep."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import asdict

from marq.errors import ConfigError

Kind = Literal["elastic", "static"]
Allocation = Literal["even", "sticky"]
MIN_LEASE_MS = 1_000
MOST_MEMBERS = 10_000
"""Partitions of one topic; nobody reads a config that says more."""
MAX_NAME = 40
_NAME = re.compile(r"[A-Za-z0-9_-]+")


class Filter(Struct, frozen=True):
    """Subjects a group takes, and which of their `*` tokens make the key; none: all of it."""

    filter: str
    partitioning_wildcards: tuple[int, ...] = ()


class Mapping(Struct, frozen=True):
    """The partitions of one member, said outright."""

    member: str
    partitions: tuple[int, ...]


class GroupConfig(Struct, frozen=True, omit_defaults=True):
    """What the control log holds of a group. Only members and mappings change after create."""

    max_members: int
    """Also the number of partitions."""
    kind: Kind = "elastic"
    partitioning_filters: tuple[Filter, ...] = ()
    max_buffered_msgs: int = 0
    """Copying stops while as many wait; 0: never."""
    max_buffered_bytes: int = 0
    members: tuple[str, ...] = ()
    member_mappings: tuple[Mapping, ...] = ()
    allocation: Allocation = "even"
    ack_wait_ms: int = 5_000
    max_ack_pending: int = 1
    pending_per: Literal["member", "partition"] = "member"
    max_deliver: int = 5
    """Deliveries of a message before it is a dead letter; 0: no limit."""
    lease_ms: int = 2_000
    router: Literal["members", "spark"] = "members"
    """Who copies the queue's messages to the group's topic."""

    @property
    def names(self) -> tuple[str, ...]:
        """Everyone in the membership."""
        return self.members or tuple(each.member for each in self.member_mappings)


def checked(config: GroupConfig) -> GroupConfig:
    """The config, if it keeps every rule; `ConfigError` says which it breaks."""
    if not 1 <= config.max_members <= MOST_MEMBERS:
        raise ConfigError(f"max_members must be 1 to {MOST_MEMBERS:,}, not {config.max_members:,}")
    for each in config.partitioning_filters:
        _check_filter(each)
    if config.members and config.member_mappings:
        raise ConfigError("a group has members or mappings, not both: leave one of them out")
    if config.member_mappings:
        _check_mappings(config.member_mappings, config.max_members)
    if config.kind == "static" and config.partitioning_filters:
        raise ConfigError("a static group copies nothing: filters need an elastic group")
    _check_numbers(config)
    return config


def _check_numbers(config: GroupConfig) -> None:
    if config.lease_ms < MIN_LEASE_MS:
        raise ConfigError(f"lease must be at least {MIN_LEASE_MS}ms, not {config.lease_ms}ms")
    for name, lowest in (
        ("max_ack_pending", 1),
        ("ack_wait_ms", 1),
        ("max_deliver", 0),
        ("max_buffered_msgs", 0),
        ("max_buffered_bytes", 0),
    ):
        if getattr(config, name) < lowest:
            raise ConfigError(f"{name.removesuffix('_ms')} must be at least {lowest}")


def _check_filter(each: Filter) -> None:
    tokens = each.filter.split(".")
    stars = tokens.count("*")
    if not each.filter:
        raise ConfigError("a partitioning filter must not be empty")
    if not stars and tokens[-1] != ">":
        raise ConfigError(f"the filter {each.filter!r} needs a '*' token, or '>' at its end")
    chosen = each.partitioning_wildcards
    if len(chosen) > stars:
        raise ConfigError(f"{each.filter!r} has {stars} '*' tokens, {len(chosen)} are chosen")
    if len(set(chosen)) != len(chosen):
        raise ConfigError(f"{each.filter!r}: a wildcard is chosen twice in {list(chosen)}")
    if any(not 1 <= number <= stars for number in chosen):
        raise ConfigError(f"{each.filter!r}: wildcards are numbered 1 to {stars}")


def _check_mappings(mappings: Sequence[Mapping], partitions: int) -> None:
    names = [each.member for each in mappings]
    used = [number for each in mappings for number in each.partitions]
    if len(names) > partitions:
        raise ConfigError(f"{len(names)} members are mapped, max_members is {partitions}")
    if len(set(names)) != len(names):
        raise ConfigError("a member is mapped twice: give it one list of partitions")
    if outside := [number for number in used if not 0 <= number < partitions]:
        raise ConfigError(f"there are partitions 0 to {partitions - 1}, not {outside[0]}")
    if len(set(used)) != len(used):
        raise ConfigError("a partition is mapped twice: it can have one member")
    if missing := sorted(set(range(partitions)) - set(used)):
        raise ConfigError(f"every partition must be mapped: {missing[0]} is not")


def group_name(name: str) -> str:
    """The name, if a group may have it."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            f"a group's name is made of letters, digits, '_' and '-': {name!r} is not"
        )
    return name


def new_group_name(name: str) -> str:
    """The name, if a new group may have it."""
    if len(group_name(name)) > MAX_NAME:
        raise ConfigError(
            f"a group's name may have {MAX_NAME} characters, this one has {len(name)}: shorten it"
        )
    return name


def added(config: GroupConfig, names: Iterable[str]) -> GroupConfig:
    """The config with more members; names that are there already change nothing."""
    new = _named(config, names)
    more = (*config.members, *(name for name in new if name not in config.members))
    return _with(config, members=tuple(dict.fromkeys(more)))


def dropped(config: GroupConfig, names: Iterable[str]) -> GroupConfig:
    """The config without these members."""
    gone = set(_named(config, names))
    return _with(config, members=tuple(name for name in config.members if name not in gone))


def mapped(config: GroupConfig, mappings: Iterable[Mapping]) -> GroupConfig:
    """The config with these mappings, and without members; none: nobody consumes."""
    return checked(_with(config, members=(), member_mappings=tuple(mappings)))


def _named(config: GroupConfig, names: Iterable[str]) -> list[str]:
    found = [name for name in names if name]
    if not found:
        raise ConfigError("name at least one member")
    if config.kind == "static":
        raise ConfigError("the membership of a static group is fixed: create it anew")
    if config.member_mappings:
        raise ConfigError("this group is mapped: change the mappings, or remove them first")
    return found


def _with(config: GroupConfig, **changes: object) -> GroupConfig:
    return GroupConfig(**{**asdict(config), **changes})


def differences(stored: GroupConfig, wanted: dict[str, object]) -> list[str]:
    """How what is asked for differs from what is stored, one sentence each."""
    have = asdict(stored)
    return [
        f"{name.removesuffix('_ms')} is {have[name]!r}, not {value!r}"
        for name, value in wanted.items()
        if have[name] != value
    ]
