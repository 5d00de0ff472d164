"""Where a dead letter goes back to: its queue, or the ordered group in whose hands it died."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from marq.core.fate import redelivery
from marq.core.messages.stored import ANY_PARTITION, Outgoing, Stored
from marq.errors import ConfigError
from marq.groups import routing
from marq.groups.config import GroupConfig
from marq.groups.names import GroupNames, group_names
from marq.kafka.access import Access

FindGroup = Callable[[GroupNames], GroupConfig | None]
"""The config of an ordered group; None: there is no such group."""


class Homes:
    """Each is looked up once. A queue that was deleted is an error, for none of its letters can be
    sent; letters of a deleted group stay where they are, and do not keep the others from going."""

    def __init__(self, access: Access, find_group: FindGroup) -> None:
        self._access = access
        self._find_group = find_group
        self._queues = set[str]()
        self._groups: dict[str, tuple[GroupNames, GroupConfig] | None] = {}
        self._stayed = Counter[str]()

    def has(self, letter: Stored) -> bool:
        """Whether it can be sent anywhere."""
        home, reader = redelivery.home_of(letter), redelivery.reader_of(letter)
        if home not in self._queues:
            self._access.definition(home)
            self._queues.add(home)
        there = reader in (home, redelivery.NOBODY) or self._group(home, reader) is not None
        if not there:
            self._stayed[reader] += 1
        return there

    def again(self, letter: Stored) -> Outgoing:
        """The record to send."""
        home, reader = redelivery.home_of(letter), redelivery.reader_of(letter)
        if reader in (home, redelivery.NOBODY):
            return redelivery.redriven(letter, ANY_PARTITION)
        found = self._group(home, reader)
        assert found is not None, "it was asked for"
        names, config = found
        return routing.redriven(letter, config, names.data(config.kind))

    def _group(self, home: str, reader: str) -> tuple[GroupNames, GroupConfig] | None:
        if reader not in self._groups:
            self._groups[reader] = self._look(home, reader.removeprefix(f"{home}.group."))
        return self._groups[reader]

    def _look(self, queue: str, group: str) -> tuple[GroupNames, GroupConfig] | None:
        try:
            names = group_names(queue, group, self._access.space)
        except ConfigError:
            return None  # any producer may have written it
        config = self._find_group(names)
        return (names, config) if config else None

    def tell_who_stayed(self, done: int) -> None:
        """Raises an error if letters could not be sent."""
        if self._stayed:
            names = ", ".join(sorted(self._stayed))
            raise ConfigError(
                f"{done:,} dead letters were redriven, {self._stayed.total():,} stay: their "
                f"ordered group was deleted ({names}). Create it again first, or discard them"
            )
