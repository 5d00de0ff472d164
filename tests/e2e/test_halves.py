"""Half messages with real processes, killed and stopped at every step: what the database says was
ordered is delivered, nothing else is, and twice only where its owner died or stood still.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import marq
from marq import embedded
from marq.embedded import tether
from tests.conftest import Tracked
from tests.e2e import halves_shop
from tests.e2e.halves_shop import STEPS, ShopPlan
from tests.e2e.kafka_fixtures import new_name
from tests.e2e.kafka_process import eventually
from tests.tracker_process import TrackerProcess

ROOT = Path(__file__).parents[2]
PATIENCE_S = 240.0
LONG = "30s"
"""Nobody stands still for so long whom no test stops."""

pytestmark = [pytest.mark.e2e, pytest.mark.kafka, pytest.mark.java, pytest.mark.timeout(800)]
soak = pytest.mark.skipif("OUTAGES" not in os.environ, reason="minutes long: run by make soak")


class ShopProcess:
    """One process of the shop."""

    def __init__(self, plan: ShopPlan) -> None:
        about = msgspec.json.encode(plan).decode()
        module = [sys.executable, "-m", "tests.e2e.halves_shop", about]
        self.process = subprocess.Popen(
            [sys.executable, tether.__file__, str(os.getpid()), *module],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.lines: list[str] = []
        self._said = threading.Condition()
        self._over = False
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._said:
                self.lines.append(line.strip())
                self._said.notify_all()
        with self._said:
            self._over = True
            self._said.notify_all()

    def wait_for(self, word: str) -> None:
        """Until it has said so, or is dead."""
        with self._said:
            assert self._said.wait_for(lambda: word in self.lines or self._over, PATIENCE_S), word

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)
        self._listener.join(30)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


class Street:
    """Shops, and whoever takes what they deliver."""

    def __init__(self, servers: str, directory: Path) -> None:
        self.servers = servers
        self.database = directory / "orders.db"
        halves_shop.create(self.database)
        self.broker = marq.connect(f"kafka://{servers}")
        self.queue: marq.Queue[Any] = self.broker.queue(new_name())
        self.shops: list[ShopProcess] = []
        self.places: dict[str, set[str]] = {}
        """By message, where it lay."""
        self._stop = threading.Event()
        self._taker = threading.Thread(target=self._take, daemon=True)
        self._taker.start()

    def shop(self, **plan: Any) -> ShopProcess:
        asked = ShopPlan(
            servers=self.servers, queue=self.queue.name, database=str(self.database), **plan
        )
        self.shops.append(ShopProcess(asked))
        return self.shops[-1]

    def _take(self) -> None:
        while not self._stop.is_set():
            for delivery in self.queue.receive(200, "200ms"):
                self.places.setdefault(delivery.message_id, set()).add(delivery._stored.address)
                delivery.ack()

    def freeze_amid(self, shop: ShopProcess) -> None:
        """Stop it while blocks of it are open."""
        assert eventually(lambda: self.has_ordered(shop))
        shop.process.send_signal(signal.SIGSTOP)

    def has_ordered(self, shop: ShopProcess) -> bool:
        return any(owner == shop.process.pid for _, owner in self.orders().values())

    def orders(self) -> dict[str, tuple[str, int]]:
        database = halves_shop.connected(str(self.database))
        found = database.execute("SELECT half_id, state, owner FROM orders").fetchall()
        database.close()
        return {half_id: (state, owner) for half_id, state, owner in found}

    def wait_until_decided(self) -> None:
        """Until nothing is open, and what was ordered is there."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            left = self.broker.backend.counted(self.queue.name).halves
            ordered = {name for name, (state, _) in self.orders().items() if state == "ordered"}
            if not left and ordered <= self.places.keys():
                return
            time.sleep(0.2)
        raise AssertionError(f"{left} are open, and {len(ordered - self.places.keys())} missing")

    def close(self) -> None:
        for shop in self.shops:
            shop.end()
        self._stop.set()
        self._taker.join()
        self.broker.close()

    def judge(self, interrupted: set[int]) -> Counter[str]:
        """Every order has its message, every message its order; twice only of those owners."""
        orders = self.orders()
        ordered = {name: owner for name, (state, owner) in orders.items() if state == "ordered"}
        assert ordered.keys() - self.places.keys() == set(), "an order without its message"
        assert self.places.keys() - ordered.keys() == set(), "a message without its order"
        twice = {name for name, places in self.places.items() if len(places) > 1}
        assert {ordered[name] for name in twice} <= interrupted, "twice, though nobody was stopped"
        return Counter(
            orders=len(ordered), rolled_back=len(orders) - len(ordered), twice=len(twice)
        )


@contextmanager
def street(servers: str, directory: Path) -> Iterator[Street]:
    found = Street(servers, directory)
    try:
        yield found
    finally:
        found.close()


def test_owners_are_killed_at_every_step_or_stand_still(tracked: Tracked, tmp_path: Path) -> None:
    with street(tracked.bootstrap_servers, tmp_path) as found:
        members = [found.shop(slow_s=slow_s) for slow_s in (0.0, 0.2)]
        for member in members:
            member.wait_for("ready")
        killed = [
            found.shop(orders=200, dies_at=step, nth=15, seed=number)
            for number, step in enumerate(STEPS)
        ]
        frozen = found.shop(orders=40, pause_s=0.2, seed=50)
        lively = found.shop(orders=100, seed=60, check_after=LONG)
        found.freeze_amid(frozen)
        for shop in (*killed, lively):
            shop.wait_for("done")
        time.sleep(5)  # past its checks
        frozen.process.send_signal(signal.SIGCONT)
        frozen.wait_for("done")

        found.wait_until_decided()
        counted = found.judge({shop.process.pid for shop in (*killed, frozen)})

    assert counted["orders"] >= 100 + 6 * 10
    print(counted)


@soak
def test_thousands_with_the_tracker_killed_and_its_checkpoint_lost(
    tracked: Tracked, tmp_path: Path
) -> None:
    with street(tracked.bootstrap_servers, tmp_path) as found:
        members = [found.shop(slow_s=slow_s) for slow_s in (0.0, 0.3)]
        for member in members:
            member.wait_for("ready")
        interrupted: set[int] = set()
        for round_number in range(4):
            killed = [
                found.shop(orders=400, dies_at=step, nth=60, seed=100 * round_number + number)
                for number, step in enumerate(STEPS)
            ]
            frozen = found.shop(orders=80, pause_s=0.1, seed=100 * round_number + 50)
            lively = found.shop(orders=300, seed=100 * round_number + 60, check_after=LONG)
            found.freeze_amid(frozen)
            if round_number % 2:
                tracked.tracker.kill()
                shutil.rmtree(tracked.checkpoint)
                tracked.tracker.restart()
            for shop in (*killed, lively):
                shop.wait_for("done")
            time.sleep(8)
            frozen.process.send_signal(signal.SIGCONT)
            frozen.wait_for("done")
            interrupted |= {shop.process.pid for shop in (*killed, frozen)}

        found.wait_until_decided()
        counted = found.judge(interrupted)

    assert counted.total() >= 2_000
    print(counted)


@soak
def test_one_of_three_brokers_is_killed_amid(tmp_path: Path) -> None:
    runtime = embedded.start(tmp_path / "three", 3, tracker=False, parent=os.getpid())
    servers = runtime.bootstrap_servers
    try:
        with (
            TrackerProcess(servers, tmp_path / "checkpoint") as tracker,
            street(servers, tmp_path) as found,
        ):
            tracker.wait_until_ready()
            found.shop().wait_for("ready")
            killed = [
                found.shop(orders=200, dies_at=step, nth=100, seed=number)
                for number, step in enumerate(STEPS)
            ]
            lively = found.shop(orders=600, pause_s=0.05, seed=60, check_after=LONG)
            for shop in (*killed, lively):
                shop.wait_for("ready")
            assert eventually(lambda: found.has_ordered(lively))
            brokers = embedded.status(runtime.directory).brokers
            assert brokers[1].pid
            os.kill(brokers[1].pid, signal.SIGKILL)
            for shop in (*killed, lively):
                shop.wait_for("done")

            found.wait_until_decided()
            counted = found.judge({shop.process.pid for shop in killed})
    finally:
        embedded.stop(runtime.directory)

    assert counted["orders"] >= 600
    print(counted)
