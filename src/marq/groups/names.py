"""The names of everything that belongs to a group."""

from __future__ import annotations

import re
from typing import NamedTuple

from marq.core import names
from marq.core.names import Space
from marq.errors import ConfigError
from marq.groups.config import Kind, group_name

_CONTROL = re.compile(r"(?P<queue>.+)\.group\.(?P<group>[A-Za-z0-9_-]+)\.control")


class GroupNames(NamedTuple):
    """Topics, offsets and transactional ids of a group."""

    queue: str
    group: str
    space: Space = names.DEFAULT

    @property
    def place(self) -> tuple[str, str]:
        """Queue and name: what the catalog knows it by."""
        return self.queue, self.group

    @property
    def base(self) -> str:
        return f"{self.queue}.group.{self.group}"

    def data(self, kind: Kind) -> str:
        """Where the group's messages are: a static group makes no copy."""
        return self.queue if kind == "static" else self.base

    @property
    def control(self) -> str:
        return f"{self.base}.control"

    @property
    def leases(self) -> str:
        return f"{self.base}.leases"

    @property
    def offsets(self) -> str:
        """The consumer group that has the acks."""
        return f"{self.space.prefix}group.{self.queue}.{self.group}"

    def producer(self, member: str) -> str:
        """The transactional id all instances of a member share: the last to take it fences the
        others."""
        return f"{self.offsets}.m.{member}"

    @property
    def copied(self) -> str:
        """The consumer group that has how far the queue was copied."""
        return f"{self.offsets}.copy"

    def copier(self, source_partition: int) -> str:
        return f"{self.copied}.{source_partition}"


def group_names(queue: str, group: str, space: Space) -> GroupNames:
    """The names, if queue and group may have theirs."""
    found = GroupNames(names.queue_name(queue), group_name(group), space)
    if len(found.control) > names.MAX_TOPIC:
        raise ConfigError(
            f"the topic {found.control!r} would have {len(found.control)} characters, Kafka takes "
            f"{names.MAX_TOPIC}: shorten the queue's name or the group's"
        )
    return found


def of_topic(topic: str, space: Space) -> GroupNames | None:
    """The group whose control log this is."""
    found = _CONTROL.fullmatch(topic)
    return GroupNames(found["queue"], found["group"], space) if found else None
