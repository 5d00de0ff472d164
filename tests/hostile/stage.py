"""A queue under attack, workers that do as they please with what is odd, and the law.

The law: every good message is handled, every odd one delivered or buried with a reason, nothing of
an aborted transaction is seen, and no thread ends of an error.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import marq
from marq.core import names
from marq.kafka.backend import Kafka
from tests.e2e.kafka_fixtures import new_name
from tests.e2e.kafka_process import eventually
from tests.hostile.attack import VOID, Attack
from tests.hostile.oddities import NAME, Hostile

PATIENCE_S = 120.0
GOOD = b"good-"
PARTITIONS = 2
REASONS = ("", "no", "\ud800", "\x1b[2J\0", "why " * 20_000, "\N{PILE OF POO}" * 400)


class Odds(Exception):
    """What a handler says of an odd message."""


class Stage:
    """A broker, a queue with a hostile producer, and what was handled."""

    def __init__(self, servers: str, seed: int, settles: bool = False, **options: Any) -> None:
        self.servers, self.seed = servers, seed
        self.chance = Random(seed)
        self._settles = settles
        """Whether odd messages are rejected and retried too: a tracker must bury those."""
        self.broker = marq.connect(f"kafka://{servers}")
        self.victim = self.broker.queue(new_name(), partitions=1)
        self.queue = self.broker.queue(new_name(), partitions=PARTITIONS, **options)
        self._purge()
        self.hostile = Hostile(seed, self.queue.name, self.victim.name, self._topic_id())
        self.attack = Attack(servers, seed)
        self.good: set[bytes] = set()
        self.handled: Counter[bytes] = Counter()
        self.seen: set[object] = set()
        """Names and ids of what was delivered."""
        self.fallen: list[str] = []
        """Threads that ended of an error."""
        self._hook, threading.excepthook = threading.excepthook, self._fell

    def _purge(self) -> None:
        """So that there is a purge that origins can be below."""
        self.queue.send(VOID)
        self.queue.purge()

    def _topic_id(self) -> bytes:
        kafka = self.broker.backend
        assert isinstance(kafka, Kafka)
        found = kafka.admin.topic_id(self.victim.name)
        assert found is not None
        return found

    def _fell(self, about: threading.ExceptHookArgs) -> None:
        self.fallen.append(f"{about.thread}: {about.exc_type.__name__}: {about.exc_value}")

    # What happens.

    def send_good(self, number: int, **options: Any) -> None:
        """So many good messages, each its own."""
        payloads = [GOOD + str(len(self.good) + n).encode() for n in range(number)]
        self.queue.send_many(payloads, **options)
        self.good.update(payloads)

    def send_good_in_transaction(self, number: int) -> None:
        payloads = [GOOD + str(len(self.good) + n).encode() for n in range(number)]
        self.attack.transactions(self.queue.name, payloads, self.queue.name)
        self.good.update(payloads)

    def send_odd(self, number: int) -> None:
        """So many odd messages, with good ones between."""
        odds = list(self.hostile.messages(number))
        for at in range(0, number, 10):
            self.attack.write(odds[at : at + 10], PARTITIONS, self.hostile)
            self.send_good(2)

    def handle(self, delivery: marq.Delivery[Any]) -> None:
        """What a worker's handler does."""
        self.note(delivery)
        self.handled[delivery.raw] += 1
        if not delivery.raw.startswith(GOOD) or NAME.decode() in delivery.headers:
            self._handle_odd(delivery)

    def note(self, delivery: marq.Delivery[Any]) -> None:
        """Remember that it was delivered: by its name, or by where it was first sent to."""
        self.seen |= {delivery.headers.get(NAME.decode()), delivery.message_id}

    def _handle_odd(self, delivery: marq.Delivery[Any]) -> None:
        what = self.chance.randint(0, 9) if self._settles else self.chance.choice((0, 1, 2, 9))
        reason = self.chance.choice(REASONS)
        match what:
            case 0 | 1:
                _ = (delivery.payload, delivery.key, delivery.headers, delivery.message_id)
                _ = (delivery.sent_at, delivery.deadline, repr(delivery), delivery.attempt)
            case 2 if not self._settles and delivery.attempt < 3:
                delivery.retry("10ms", reason)
            case 3 | 4:
                raise Odds(reason)
            case 5:
                delivery.reject(reason)
            case 6:
                delivery.retry("20ms", reason)
            case 7:
                delivery.give_back()

    @contextmanager
    def working(self) -> Iterator[Callable[[], None]]:
        """While inside, a worker handles; call what comes to raise where it failed."""
        self.queue.handler(concurrency=4)(self.handle)
        with self.broker.worker(self.queue) as worker:

            def alive() -> None:
                for runner in worker._runners:
                    runner.raise_failure()

            yield alive

    # The law.

    def check(self, alive: Callable[[], None] = lambda: None) -> None:
        """Wait until the law holds; `alive` raises where something died meanwhile."""

        def held() -> bool:
            alive()
            return not self._missing() and not self.unseen()

        eventually(held, PATIENCE_S, every_s=0.2)
        assert not self.fallen, self.fallen
        missing, unseen = self._missing(), self.unseen()
        assert not missing, f"seed {self.seed}: {len(missing)} good messages are lost: {missing}"
        assert not unseen, f"seed {self.seed}: neither delivered nor buried: {unseen}"
        assert not self.handled[b"aborted"], "what was aborted was handled"
        assert not self.handled[VOID], "what was purged was handled"

    def _missing(self) -> list[bytes]:
        return sorted(self.good - self.handled.keys())[:10]

    def unseen(self) -> list[str]:
        """Odd messages of the queue that nobody was given and no dead letter is of."""
        left = {
            (odd.name, ":".join(map(str, place))): odd
            for place, odd in list(self.attack.written.items())
            if place[0] == self.queue.name and not odd.waits
        }
        found = self.seen if self._is_seen(left) else self.seen | self.buried()
        return [f"{odd.what} at {at}" for (name, at), odd in left.items() if not {name, at} & found]

    def _is_seen(self, left: Iterable[tuple[bytes, str]]) -> bool:
        return all(self.seen & set(either) for either in left)

    def buried(self) -> set[object]:
        """Names and ids of what is a dead letter."""
        letters = list(self.broker.backend.peek(names.dead_letters(self.queue.name), 100_000))
        told = {dict(letter.headers).get(NAME.decode()) for letter in letters}
        return told | {letter.message_id() for letter in letters}

    def close(self) -> None:
        threading.excepthook = self._hook
        self.attack.close()
        self.broker.close()

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
