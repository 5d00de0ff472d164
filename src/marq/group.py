"""An ordered group: strict order per key, one owner at a time. Made by `broker.group(...)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Unpack

from msgspec.structs import asdict

from marq.backend import Backend, Groups
from marq.core.messages import sending
from marq.core.messages.sending import SendOptions
from marq.errors import ConfigError
from marq.groups import config as rules
from marq.groups import keys
from marq.groups.config import GroupConfig
from marq.groups.names import GroupNames, group_names
from marq.groups.options import GroupOptions, config_fields, mappings_of
from marq.member import GroupHandler, Instance
from marq.message import Sent
from marq.receipt import Receipt

Hook = Callable[[Instance], object]


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """A member of a group, now."""

    member: str
    partitions: tuple[int, ...]
    """What it shall have."""
    held: tuple[int, ...]
    """What it has."""
    active: str | None
    """Its active instance; None: there is none."""


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A group, now."""

    queue: str
    group: str
    config: Mapping[str, Any]
    version: int
    members: tuple[MemberInfo, ...]
    waiting: tuple[int, ...]
    """By partition, messages that are not acked."""

    @property
    def warnings(self) -> list[str]:
        """What needs someone's attention."""
        return [
            f"member {each.member} has partitions {list(each.partitions)} and no active instance"
            for each in self.members
            if each.partitions and each.active is None
        ]


class Group:
    """Members, and the partitions they own; instances of a member that take turns."""

    def __init__(self, service: Groups, names: GroupNames) -> None:
        self._service = service
        self._names = names
        self.instances: list[Instance] = []
        """Started here."""

    @property
    def name(self) -> str:
        return self._names.group

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self._names.queue

    @property
    def config(self) -> GroupConfig:
        """What the log says now."""
        return self._service.config(self._names)

    def consume(
        self,
        member: str,
        handler: GroupHandler,
        *,
        on_activate: Hook | None = None,
        on_deactivate: Hook | None = None,
        ack: Literal["explicit", "return"] = "explicit",
    ) -> Instance:
        """An instance of the member, at work when it is selected; a context manager.

        It is one of possibly many, in any process: one is active, the others stand by. The handler
        must ack; with `ack="return"`, for static groups, returning does.
        """
        if not callable(handler):
            raise ConfigError("consume needs a handler: a function that takes a delivery")
        if not member or not isinstance(member, str):
            raise ConfigError(f"a member's name must be a text, not {member!r}")
        found = self.config
        if ack not in ("explicit", "return") or (ack == "return" and found.kind == "elastic"):
            raise ConfigError('an elastic group is acked explicitly: ack="explicit"')
        hooks = {"on_activate": on_activate, "on_deactivate": on_deactivate}
        given = {name: hook for name, hook in hooks.items() if hook is not None}
        instance = self._service.consume(
            self._names, member, handler, acks_on_return=ack == "return", **given
        )
        self.instances.append(instance)
        return instance

    def send(self, payload: Any, **options: Unpack[SendOptions]) -> Receipt[Sent]:
        """Send to the partition of the queue that the key belongs to, for a static group."""
        message = sending.message(payload, options)
        return self._service.send(self._names, message, self.partition_of(message.key or b""))

    def partition_of(self, key: str | bytes) -> int:
        """Which partition a key belongs to."""
        data = key.encode() if isinstance(key, str) else key
        return keys.partition_of(data, self.config.max_members)

    # Membership.

    def add(self, *members: str) -> list[str]:
        """Add members; the new list."""
        return self._change(lambda found: rules.added(found, members))

    def drop(self, *members: str) -> list[str]:
        """Drop members; the new list. What they hold goes to the others, in order."""
        return self._change(lambda found: rules.dropped(found, members))

    def map(self, mappings: Mapping[str, Iterable[int]]) -> list[str]:
        """Say outright who has which partitions; the members."""
        if not mappings:
            raise ConfigError("mappings must name a member for every partition; unmap removes them")
        return self._change(lambda found: rules.mapped(_elastic(found), mappings_of(mappings)))

    def unmap(self) -> list[str]:
        """Remove the mappings: nobody consumes until members are added."""
        return self._change(lambda found: rules.mapped(_elastic(found), ()))

    def _change(self, how: Callable[[GroupConfig], GroupConfig]) -> list[str]:
        return list(self._service.change(self._names, how).names)

    def step_down(self, member: str) -> bool:
        """Have another instance of the member take over; False: none was active.

        The active one drains and acks first; one that hangs is fenced.
        """
        return self._service.step_down(self._names, member)

    # Looking.

    def members(self) -> list[str]:
        """The members by the config."""
        return list(self.config.names)

    def active(self) -> dict[str, str]:
        """By member, the instance that holds a live lease."""
        return self._service.look(self._names)[1]

    def is_member(self, member: str) -> bool:
        """Whether the config names it."""
        return member in self.config.names

    def is_active(self, member: str) -> bool:
        """Whether an instance of it holds a live lease."""
        return member in self.active()

    def partitions(self, member: str) -> list[int]:
        """What the member shall have."""
        return sorted(self._service.table(self._names).wanted(member))

    def info(self) -> GroupInfo:
        """Everything about it, now; `warnings` says what needs attention."""
        table, active = self._service.look(self._names)
        assert table.config is not None
        names = dict.fromkeys((*table.config.names, *table.holders))
        return GroupInfo(
            self.queue,
            self.name,
            asdict(table.config),
            table.version,
            tuple(
                MemberInfo(
                    name,
                    tuple(sorted(table.wanted(name))),
                    tuple(sorted(table.held(name))),
                    active.get(name),
                )
                for name in names
                if name in table.config.names or table.held(name)
            ),
            tuple(self._service.waiting(self._names, table.config)),
        )

    def delete(self) -> None:
        """Delete the group: its instances end, its messages go, the queue stays."""
        self._service.delete(self._names)

    def close(self) -> None:
        """Stop the instances started here."""
        for instance in self.instances:
            instance.stop()
        self._service.close_router(self._names)


def open_group(backend: Backend, queue: str, name: str, options: GroupOptions) -> Group:
    """The group of this name, created if there is none; options given must be the group's."""
    names = group_names(queue, name, backend.space)
    fields = config_fields(options)
    service = _service(backend)
    stored = service.find(names)
    if stored is None:
        if "max_members" not in fields:
            raise ConfigError(
                f"there is no group {name!r} of {queue!r}: create it with max_members"
            )
        if service.brokers > 1:
            # A takeover while a coordinator moves helps nobody: wait until it has.
            fields = {"lease_ms": 5_000, **fields}
        stored = service.create(names, rules.checked(GroupConfig(**fields)))
    if found := rules.differences(stored, fields):
        raise ConfigError(f"group {name!r} exists and differs: {'; '.join(found)}")
    return Group(service, names)


def groups(backend: Backend) -> list[tuple[str, str]]:
    """Queue and name of every group."""
    return [(each.queue, each.group) for each in _service(backend).all()]


def delete_group(backend: Backend, queue: str, name: str) -> None:
    """Delete a group, or what is there of one whose creation was cut short."""
    _service(backend).delete(group_names(queue, name, backend.space))


def delete_groups(backend: Backend, queue: str) -> None:
    """Delete all groups of a queue that is to be deleted: a queue made again inherits none."""
    if (service := backend.groups()) is not None:
        service.delete_all_of(queue)


def _service(backend: Backend) -> Groups:
    if (service := backend.groups()) is None:
        raise ConfigError("ordered groups need Kafka: connect to kafka:// or embedded://")
    return service


def _elastic(config: GroupConfig) -> GroupConfig:
    if config.kind == "static":
        raise ConfigError("the membership of a static group is fixed: create it anew")
    return config
