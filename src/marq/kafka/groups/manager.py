"""Creates, changes, describes and deletes groups; starts instances."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from uuid import uuid4

from marq.errors import ConfigError, NotConnected
from marq.groups import config as rules
from marq.groups.config import GroupConfig
from marq.groups.names import GroupNames
from marq.groups.protocol import proxy_hold
from marq.groups.records import ConfigRecord, StepDown
from marq.groups.table import Table
from marq.kafka.access import Access
from marq.kafka.cluster import topics
from marq.kafka.groups.clients import LARGEST, GroupClients
from marq.kafka.groups.log import GroupLog, now_ms
from marq.kafka.groups.performer import fence
from marq.kafka.groups.registry import Registry

_COMPACTED = {"cleanup.policy": "compact"}
_DATA = {**topics.KEPT, **topics.TRIMMED, "max.message.bytes": str(LARGEST)}


class Manager:
    """The groups of a cluster."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self.cluster = GroupClients(
            access.servers, access.extra, access.admin, access.replicas, access.connect_timeout_s
        )
        self.registry = Registry(access.catalog_log, access.admin, access.space)

    # Looking.

    def all(self) -> list[GroupNames]:
        """The groups there are."""
        return self.registry.all()

    def table(self, names: GroupNames) -> Table | None:
        """What the log says of a group now; None if there is none. Topics of its name may also be
        there of an earlier queue, or of a queue of another namespace."""
        if not self.registry.is_ours(names) or not self._is_laid_out(names):
            return None
        with self._log(names) as log:
            return log.table if log.table.config else None

    def _is_laid_out(self, names: GroupNames) -> bool:
        return self._access.admin.describe(names.control) is not None

    def look(self, names: GroupNames) -> tuple[Table, dict[str, str]]:
        """The table, and the active instance of each member; waits for a beat of everyone, or a
        lease."""
        with self._log(names) as log:
            lease_ms = _config(names, log.table).lease_ms
            self._know(log, log.table.holders, lease_ms)
            return log.table, log.watch.active(now_ms())

    def _know(self, log: GroupLog, members: Iterable[str], lease_ms: int) -> None:
        asked = list(members)

        def known() -> bool:
            return all(log.watch.is_known(member, now_ms()) for member in asked)

        self._wait(log, known, 2 * lease_ms / 1_000)

    @contextmanager
    def _log(self, names: GroupNames) -> Iterator[GroupLog]:
        self.registry.refuse_newer(names)
        with closing(GroupLog(self.cluster, names)) as log:
            log.catch_up()
            yield log

    @staticmethod
    def _wait(log: GroupLog, true: Callable[[], bool], seconds: float) -> bool:
        until = time.monotonic() + seconds
        while not (found := true()) and not log.gone and time.monotonic() < until:
            log.follow(0.05)
        return found or log.gone

    # Changing.

    def create(self, names: GroupNames, wanted: GroupConfig) -> Table:
        """Create the group, unless there is one; whoever is first wins."""
        until = time.monotonic() + self.cluster.timeout_s
        self._check_name(names)
        if self.registry.is_leftover(names):
            self.delete(names)
        while True:
            self._lay_out(names, wanted)
            # Before anything is copied, so that what was not is spared from then on.
            self.registry.record(names)
            with self._log(names) as log:
                if not log.table.deleted and not log.gone:
                    if log.table.config is None:
                        sources = tuple(self._sources(names))
                        log.change(ConfigRecord(uuid4().hex, 1, wanted, sources=sources))
                    return log.table
            if time.monotonic() > until:
                raise NotConnected(f"the group {names.group!r} is being deleted: try again later")
            time.sleep(0.1)  # a deleted group's topics go one after the other

    def _check_name(self, names: GroupNames) -> None:
        rules.new_group_name(names.group)
        other = f"group.{names.queue}.{names.group}"
        if self._access.catalog().queue(other) is not None:
            raise ConfigError(
                f"queue {other!r} has the consumer group that group {names.group!r} of "
                f"{names.queue!r} would have: choose another name for the group"
            )

    def _lay_out(self, names: GroupNames, wanted: GroupConfig) -> None:
        partitions = self._access.definition(names.queue).partitions
        if wanted.kind == "static" and partitions != wanted.max_members:
            raise ConfigError(
                f"a static group has the queue's partitions: queue {names.queue!r} has "
                f"{partitions}, not {wanted.max_members}"
            )
        own = [(names.control, 1, topics.LOGGED), (names.leases, 1, _COMPACTED)]
        if wanted.kind == "elastic":
            own.append((names.base, wanted.max_members, _DATA))
        self._access.admin.create(own, self.cluster.replicas)
        self._access.admin.wait_until_led(*(name for name, _, _ in own))

    def _sources(self, names: GroupNames) -> list[int]:
        partitions = self._access.definition(names.queue).partitions
        return self._access.admin.starts(names.queue, partitions)

    def change(self, names: GroupNames, how: Callable[[GroupConfig], GroupConfig]) -> GroupConfig:
        """Change the membership; tried again while someone else is faster."""
        with self._log(names) as log:
            while True:
                found = _config(names, log.table)
                wanted = rules.checked(how(found))
                if wanted == found:
                    return found
                record = ConfigRecord(uuid4().hex, log.table.version + 1, wanted)
                if log.change(record).config == wanted:
                    return wanted

    def step_down(self, names: GroupNames, member: str) -> bool:
        """Make the member's active instance step down; one that hangs is fenced. False: there is
        none."""
        with self._log(names) as log:
            found = _config(names, log.table)
            claim = log.table.claim(member)
            self._know(log, [member], found.lease_ms)
            if not log.watch.is_live(member, now_ms()):
                return False
            log.change(StepDown(uuid4().hex, member, claim))
            patience_s = (found.ack_wait_ms + found.lease_ms) / 1_000

            def is_done() -> bool:
                other = log.table.claim(member) != claim
                return other or not log.watch.is_live(member, now_ms())

            if not self._wait(log, is_done, patience_s):
                self._fence_off(names, log, member)
            return True

    def _fence_off(self, names: GroupNames, log: GroupLog, member: str) -> None:
        """R4: the record first, then the fence, then the append."""
        hold = proxy_hold(log.table, member, uuid4().hex, log.table.held(member))
        if fence(self.cluster, names, member):
            log.change(hold)

    def delete(self, names: GroupNames) -> None:
        """Delete the group, or what is left of one; its instances end, the queue stays."""
        self.registry.refuse_newer(names)
        if self._is_laid_out(names):
            self._end(names)
        self.registry.clear(names)

    def _end(self, names: GroupNames) -> None:
        """Have all instances end; nobody acks into it any more."""
        with self._log(names) as log:
            while (found := log.table.config) is not None:
                log.change(ConfigRecord(uuid4().hex, log.table.version + 1, found, deleted=True))
                patience_s = (2 * found.lease_ms + found.ack_wait_ms) / 1_000
                self._wait(log, lambda: not log.watch.living(now_ms()), patience_s)
            members = list(log.table.holders)
        # One that hangs would otherwise ack into a group created again under this name, if that
        # has no member of its name to fence it.
        for member in members:
            fence(self.cluster, names, member)


def _config(names: GroupNames, table: Table) -> GroupConfig:
    if table.config is None:
        raise ConfigError(f"there is no group {names.group!r} of queue {names.queue!r}")
    return table.config
