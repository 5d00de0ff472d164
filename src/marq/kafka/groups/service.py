"""Ordered groups of one connection: what the public face asks for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from marq import forks
from marq.core.fate import redelivery
from marq.core.fate.redelivery import Context
from marq.core.messages.header import Past
from marq.core.messages.sending import Message
from marq.core.messages.stored import Outgoing
from marq.errors import ConfigError
from marq.groups.config import GroupConfig
from marq.groups.names import GroupNames
from marq.groups.table import Table
from marq.kafka.access import Access
from marq.kafka.groups.delivery import KafkaGroupDelivery
from marq.kafka.groups.instance import KafkaInstance
from marq.kafka.groups.manager import Manager
from marq.kafka.groups.plan import Handling
from marq.kafka.groups.router import Router
from marq.member import GroupHandler
from marq.message import Sent
from marq.receipt import Receipt


class Service:
    """Groups, instances and routers of a connection."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._begin()
        forks.tell(self)

    def _begin(self) -> None:
        self._found: Manager | None = None
        self._routers: dict[GroupNames, Router] = {}
        self._lock = threading.Lock()

    def forked(self) -> None:
        """In a child nothing of it runs: a connection is made when one is needed."""
        self._begin()

    @property
    def _manager(self) -> Manager:
        if self._found is None:
            self._found = Manager(self._access)
        return self._found

    @property
    def brokers(self) -> int:
        """How many keep a copy of each record."""
        return self._manager.cluster.replicas

    def all(self) -> list[GroupNames]:
        """The groups there are."""
        return self._manager.all()

    def look(self, names: GroupNames) -> tuple[Table, dict[str, str]]:
        """The table, and the active instance of each member."""
        return self._manager.look(names)

    def step_down(self, names: GroupNames, member: str) -> bool:
        """Have another instance of the member take over; False: none was active."""
        return self._manager.step_down(names, member)

    def change(self, names: GroupNames, how: Callable[[GroupConfig], GroupConfig]) -> GroupConfig:
        """Change the membership."""
        return self._manager.change(names, how)

    def find(self, names: GroupNames) -> GroupConfig | None:
        """The group's config; None if there is no such group."""
        found = self._manager.table(names)
        return found.config if found else None

    def table(self, names: GroupNames) -> Table:
        found = self._manager.table(names)
        if found is None:
            raise ConfigError(f"there is no group {names.group!r} of queue {names.queue!r}")
        return found

    def config(self, names: GroupNames) -> GroupConfig:
        found = self.table(names).config
        assert found is not None
        return found

    def create(self, names: GroupNames, wanted: GroupConfig) -> GroupConfig:
        found = self._manager.create(names, wanted).config
        assert found is not None
        return found

    def delete(self, names: GroupNames) -> None:
        self.close_router(names)
        self._manager.delete(names)

    def delete_all_of(self, queue: str) -> None:
        """Delete every group of the queue."""
        for names in self.all():
            if names.queue == queue:
                self.delete(names)

    def consume(
        self, names: GroupNames, member: str, handler: GroupHandler, **more: Any
    ) -> KafkaInstance:
        """A new instance; with it, where the group says so, copying from the queue."""
        self._access.definition(names.queue)
        table = self.table(names)
        assert table.config is not None

        def letter(delivery: KafkaGroupDelivery, reason: str) -> Outgoing | None:
            return self._letter(names, member, delivery, reason)

        plan = Handling(handler, letter, self._access.now_ms, **more)
        instance = KafkaInstance(self._manager.cluster, names, member, plan)
        if table.config.kind == "elastic" and table.config.router == "members":
            self._router(names, table).serve(instance)
        return instance

    def _router(self, names: GroupNames, table: Table) -> Router:
        """The one that copies here; anew where that has failed."""
        with self._lock:
            found = self._routers.get(names)
            if found is None or found.failure is not None:
                found = Router(self._access, self._manager.cluster, names, table)
                self._routers[names] = found
            return found

    def close_router(self, names: GroupNames) -> None:
        """Copy no more here."""
        with self._lock:
            router = self._routers.pop(names, None)
        if router is not None:
            router.close()

    def _letter(
        self, names: GroupNames, member: str, delivery: KafkaGroupDelivery, reason: str
    ) -> Outgoing | None:
        # Of a deleted queue, too: its dead letters outlive it.
        definition = self._access.recent_catalog().queue(names.queue)
        context = Context(names.queue, definition, 0, 0.0)
        past = Past(delivery.attempt, delivery.stored.at_ms, member, reason)
        return redelivery.buried(delivery.stored, context, reason, (past,), names.base).record

    def send(self, names: GroupNames, message: Message, partition: int) -> Receipt[Sent]:
        found = Outgoing(names.queue, partition, message.key, message.value, message.headers)
        return self._access.sender.send(found)

    def waiting(self, names: GroupNames, config: GroupConfig) -> list[int]:
        """By partition, messages in the group's topic that are not acked."""
        topic = names.data(config.kind)
        admin, partitions = self._access.admin, config.max_members
        ends, starts = admin.ends(topic, partitions), admin.starts(topic, partitions)
        done = admin.committed(names.offsets, topic, partitions)
        return [end - max(start, at) for start, at, end in zip(starts, done, ends, strict=True)]
