"""A client, worker processes and a tracker on one cluster, and the oracle of all their tests.

The oracle: every message sent was acked or is a dead letter, never both; no expiry was acted on
twice; nothing was handed out before it was due; what was acked never came back.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable
from typing import Any, Self

import pytest

import marq
from tests.e2e import tracker_ledger
from tests.e2e.kafka_fixtures import new_name
from tests.e2e.kafka_process import Crew, eventually
from tests.e2e.tracker_ledger import RETENTION, Ledger

PATIENCE_S = 240.0

soak = pytest.mark.skipif("OUTAGES" not in os.environ, reason="minutes long: run by make soak")


class Scene:
    """What a test of the tracker plays with; a context manager that ends it all."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.broker = marq.connect(f"kafka://{servers}")
        self.crew = Crew(servers)
        self.pulled: set[str] = set()
        """Acked by this very process."""
        self._unsaid: set[str] = set()
        """Acked by workers that did not know it."""

    def queue(self, name: str = "", **options: Any) -> marq.Queue[Any]:
        """A new queue that keeps what has ended, for the ledger."""
        return self.broker.queue(name or new_name(), retention=RETENTION, **options)

    def send(self, queue: marq.Queue[Any], number: int, **options: Any) -> set[str]:
        """So many messages; their ids."""
        return {sent.message_id for sent in queue.send_many([b"x"] * number, **options)}

    def acked(self) -> set[str]:
        return self.crew.ids("acked") | self.pulled | self._unsaid

    def leave(self, queue: marq.Queue[Any], number: int) -> None:
        """Take so many messages, and do nothing with them."""
        until = time.monotonic() + PATIENCE_S
        while number and time.monotonic() < until:
            number -= len(queue.receive(number, "5s"))
        assert not number

    def pull(
        self, queue: marq.Queue[Any], for_s: float, wanted: Callable[[], bool] = lambda: True
    ) -> None:
        """Receive for a while, and ack what is wanted or came back; leave the rest alone."""
        until = time.monotonic() + for_s
        receipts: list[tuple[str, marq.Receipt[None]]] = []
        while time.monotonic() < until:
            for delivery in queue.receive(50, "200ms"):
                if delivery.attempt > 1 or wanted():
                    try:
                        receipts.append((delivery.message_id, delivery.ack()))
                    except marq.LeaseLost:
                        continue
            receipts = [each for each in receipts if not self._heard(*each, 0)]
        for each in receipts:
            self._heard(*each, 30)

    def _heard(self, name: str, receipt: marq.Receipt[None], timeout_s: float) -> bool:
        if not timeout_s and not receipt.done():
            return False
        try:
            receipt.result(timeout_s)
        except marq.LeaseLost:
            return True
        assert name not in self.pulled, f"{name} was acked and came back"
        self.pulled.add(name)
        return True

    def ledger(self, queue: marq.Queue[Any]) -> Ledger:
        return tracker_ledger.read(self.broker, queue.name)

    def settled(
        self,
        queue: marq.Queue[Any],
        step: Callable[[], object] = lambda: None,
        sent: Iterable[str] = (),
    ) -> Ledger:
        """The ledger once every message is acked or dead, as the oracle wants it.

        What must happen meanwhile is done by `step`, again and again. What was `sent` and is
        parked is in no ledger yet.
        """
        known = frozenset(sent)
        left: set[str] = set()

        def done() -> bool:
            step()
            ledger = self.ledger(queue)
            left.clear()
            left.update((ledger.sent | known) - self.acked() - ledger.dead.keys())
            if left and self._are_acked(queue, left):
                self._unsaid |= left
                left.clear()
            return not left

        assert eventually(done, PATIENCE_S, every_s=1.0), (
            f"{len(left)} messages are neither acked nor dead: {self._told(left)}; {queue.stats()}"
        )
        found = self.ledger(queue)
        self.check(found)
        return found

    def _told(self, messages: set[str]) -> list[str]:
        """What workers said of these, of some of them."""
        return [
            f"{name}: "
            + " ".join(
                f"{word}@{number}{'+' if worker.died else ''}"
                for number, worker in enumerate(self.crew.members)
                for word in ("begun", "done", "acked", "lost")
                if name in worker.ids(word)
            )
            for name in sorted(messages)[:10]
        ]

    def _are_acked(self, queue: marq.Queue[Any], messages: set[str]) -> bool:
        """Whether workers were done with these, and nothing of the queue is open or waits: then
        their acks are in the log. A killed worker had no time to say so; another one was told that
        its lease was over, for after an outage it counts more strictly than the log, whose lease
        clock stood still for a while."""
        unheard = self.crew.ids("lost").union(*(w.ids("done") for w in self.crew.members if w.died))
        if not messages <= unheard:
            return False
        # For a while: the tracker's counts are up to a second old, and not all of one moment.
        return not eventually(lambda: self._unsettled(queue) > 0, 3.0, every_s=0.5)

    def _unsettled(self, queue: marq.Queue[Any]) -> int:
        """Messages that are open or wait."""
        found = queue.stats()
        return found.ready + found.in_flight + found.delayed

    def check(self, ledger: Ledger) -> None:
        """Nothing twice, nothing early, nothing that was acked again."""
        assert not ledger.twice
        assert not ledger.buried_twice
        assert not self.acked() & ledger.dead.keys()
        early = [e for e in self.crew.heard("begun") if e.clock_ms < ledger.due.get(e.address, 0)]
        assert not early
        acks = [event.message_id for event in self.crew.heard("acked")]
        assert len(acks) == len(set(acks)), "acked, and came back"
        assert not set(acks) & self.pulled, "acked, and came back"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with self.crew:
            self.broker.close()


def share(part: float, seed: int) -> Callable[[], bool]:
    """True for about that part of the calls."""
    chance = random.Random(seed)
    return lambda: chance.random() < part
