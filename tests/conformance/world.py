"""What the conformance tests run in: a broker of some backend, and time that goes by."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from typing import Any, ClassVar, TypeVar
from uuid import uuid4

import pytest

import marq
from marq import testing
from marq.core.duration import milliseconds

T = TypeVar("T")


class World(ABC):
    """One backend, seen through the public names only."""

    patience_s: float
    """How long something that must happen may take; a test that passes does not wait for it."""
    doubt_s: float
    """How long nothing must happen before it counts as never."""

    def __init__(self) -> None:
        self._name = f"t{uuid4().hex[:12]}"
        self._names = (f"{self._name}-{n}" for n in count(1))
        self._brokers: list[marq.Broker] = []
        self._found: list[marq.Delivery[Any]] = []
        self.broker = self.reconnect()

    @abstractmethod
    def connect(self, name: str, **settings: Any) -> marq.Broker:
        """A broker on this backend; the same name, the same queues."""

    @abstractmethod
    def let_pass(self, duration: str) -> None:
        """Let that much time go by."""

    def crash_workers(self) -> None:
        """Let everyone who has taken messages die, nothing given back."""
        pytest.skip("workers of this backend are killed in tests/e2e")

    def reconnect(self, **settings: Any) -> marq.Broker:
        """One more broker, as another process would have it."""
        broker = self.connect(self._name, **settings)
        self._brokers.append(broker)
        return broker

    def name(self) -> str:
        """A queue's name nobody else has."""
        return next(self._names)

    def names(self, broker: marq.Broker) -> list[str]:
        """The queues of this world; on a real broker there are those of other tests too."""
        return [name for name in broker.queues() if name.startswith(self._name)]

    def queue(self, **options: Any) -> marq.Queue[Any]:
        """A new queue."""
        return self.broker.queue(self.name(), **options)

    def joined_queue(self, **options: Any) -> marq.Queue[Any]:
        """A new queue that hands out at once: the first look waits for its partitions, and what is
        sent with a short life could be over by then."""
        queue = self.queue(**options)
        queue.receive()
        return queue

    def now(self) -> datetime:
        """What time it is by the log's clock."""
        return datetime.fromtimestamp(self.broker.backend.now_ms() / 1_000, UTC)

    def take(self, queue: marq.Queue[T], number: int = 1, **options: Any) -> list[marq.Delivery[T]]:
        """So many messages, as soon as they are there."""
        until = time.monotonic() + self.patience_s
        found, self._found = self._found[:number], self._found[number:]
        while len(found) < number and (left_s := until - time.monotonic()) > 0:
            found += queue.receive(number - len(found), left_s, **options)
        assert len(found) == number, f"{number} messages were to come, there came {found}"
        return found

    def take_one(self, queue: marq.Queue[T], **options: Any) -> marq.Delivery[T]:
        (delivery,) = self.take(queue, **options)
        return delivery

    def is_quiet(self, queue: marq.Queue[Any]) -> bool:
        """Whether nothing is handed out."""
        return queue.receive(100, self.doubt_s) == []

    def is_quiet_before(self, queue: marq.Queue[Any], due: datetime | None) -> bool:
        """Whether nothing is handed out before it is due: a busy machine may be that late."""
        assert due is not None
        found = queue.receive(100, self.doubt_s)
        self._found += found
        return not found or self.now() >= due

    def letters(self, queue: marq.Queue[Any], number: int = 1) -> list[marq.DeadLetter]:
        """The queue's dead letters, as soon as there are so many."""
        found: list[marq.DeadLetter] = []

        def there() -> bool:
            found[:] = queue.dead_letters.list()
            return len(found) >= number

        self.wait_until(there)
        return found

    def letter(self, queue: marq.Queue[Any]) -> marq.DeadLetter:
        (letter,) = self.letters(queue)
        return letter

    def wait_until(self, true: Callable[[], object]) -> None:
        """Wait for what no event tells: counts, and what the tracker writes."""
        until = time.monotonic() + self.patience_s
        while not true():
            assert time.monotonic() < until, "it did not happen in time"
            time.sleep(0.01)

    def close(self) -> None:
        for broker in self._brokers:
            broker.close()


class MemoryWorld(World):
    """`memory://`: time goes by when the test says so."""

    patience_s = 30.0
    doubt_s = 0.0

    def connect(self, name: str, **settings: Any) -> marq.Broker:
        return marq.connect(f"memory://{name}", **settings)

    def let_pass(self, duration: str) -> None:
        self.broker.clock.advance(duration)

    def crash_workers(self) -> None:
        testing.crash_workers(self.broker)


class KafkaWorld(World):
    """`kafka://`, a real broker: time goes by as it does."""

    patience_s = 60.0
    doubt_s = 0.3
    servers: ClassVar[str] = ""

    def connect(self, name: str, **settings: Any) -> marq.Broker:
        return marq.connect(f"kafka://{self.servers}", **settings)

    def let_pass(self, duration: str) -> None:
        time.sleep(milliseconds(duration, "duration") / 1_000)
