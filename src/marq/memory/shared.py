"""What all parts of a memory broker share: one lock, its log, its clock, its tracker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from random import Random

from marq import forks
from marq.core.catalog.definitions import Catalog, QueueDefinition
from marq.errors import ConfigError
from marq.memory.clock import Clock
from marq.memory.log import Log, MemoryTopic
from marq.memory.reader import Reader
from marq.memory.tracker import MemoryTracker


class Shared:
    """The state of a memory broker. One lock guards all of it; whoever calls lets time go by."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self.clock = clock
        self.random = random
        self.log = Log()
        self.catalog = Catalog()
        self.changed = threading.Condition(threading.RLock())
        self.tracker = MemoryTracker(self.log, self.catalog, clock.now_ms(), random)
        self.readers: dict[str, Reader] = {}
        """By queue, what its receivers share."""
        self._sequence = count(1)
        forks.tell(self)

    def forked(self) -> None:
        """A child has a copy of all of it, which nobody else would ever see."""
        self.changed = _Elsewhere()

    @contextmanager
    def caught_up(self) -> Iterator[None]:
        """Alone, at the present moment; whoever waits looks again afterwards."""
        with self.changed:
            self.tracker.catch_up(self.clock.now_ms())
            yield
            self.tracker.run()
            self.changed.notify_all()

    def definition(self, name: str) -> QueueDefinition:
        found = self.tracker.definition(name)
        if found is None:
            raise ConfigError(f"there is no queue {name!r}: it was deleted; create it again first")
        return found

    def topic(self, name: str) -> MemoryTopic:
        return self.log.create(name, self.definition(name).partitions)

    def reader(self, name: str) -> Reader:
        """What the receivers of the queue share."""
        if name not in self.readers:
            self.readers[name] = Reader(name, self.topic(name), self.tracker, self._sequence)
        return self.readers[name]

    def wake(self) -> None:
        """Let whoever waits look again."""
        if not isinstance(self.changed, _Elsewhere):
            with self.changed:
                self.changed.notify_all()


class _Elsewhere(threading.Condition):
    """In the place of the lock where the broker is another process's."""

    def __enter__(self) -> bool:
        raise ConfigError(
            "this memory:// broker is of the process that this one was forked from: connect here"
        )
