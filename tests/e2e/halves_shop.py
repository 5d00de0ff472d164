"""A process of a shop: takes orders with half messages, or only answers for the others; the orders
are in SQLite, by the recipe, and so is the truth. It dies where it is told to.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import sys
import threading
import time
from pathlib import Path

import msgspec

import marq

STEPS = ("half", "open", "inside", "happened", "committing", "committed")
"""Where an owner dies: before it knows that its half message is durable, before its local
transaction, in it, after it, when the final is on its way, and when the queue has it."""
_TABLE = """
CREATE TABLE IF NOT EXISTS orders (
    half_id TEXT PRIMARY KEY, number INTEGER, state TEXT NOT NULL, owner INTEGER
)"""


class ShopPlan(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What the process is to do."""

    servers: str
    queue: str
    database: str
    check_after: str = "2s"
    orders: int = 0
    threads: int = 4
    dies_at: str = ""
    nth: int = 1
    seed: int = 0
    slow_s: float = 0.0
    """How long its checks take."""
    pause_s: float = 0.0
    """How long it is inside each local transaction."""


def connected(path: str) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=60, isolation_level=None)
    database.execute("PRAGMA synchronous=OFF")
    return database


def create(path: Path) -> None:
    database = connected(str(path))
    database.execute("PRAGMA journal_mode=WAL")
    database.execute(_TABLE)
    database.close()


def checked(path: str, half_id: str) -> marq.Check:
    """The recipe: whoever says no makes it so."""
    database = connected(path)
    try:
        database.execute(
            "INSERT OR IGNORE INTO orders VALUES (?, NULL, 'rolled back', NULL)", (half_id,)
        )
        found = database.execute("SELECT state FROM orders WHERE half_id = ?", (half_id,))
        (state,) = found.fetchone()
    finally:
        database.close()
    return marq.COMMIT if state == "ordered" else marq.ROLLBACK


class Shop:
    """Takes orders."""

    def __init__(self, plan: ShopPlan, group: marq.ProducerGroup) -> None:
        self._plan, self._group = plan, group
        self._left = plan.nth
        self._lock = threading.Lock()

    def _step(self, name: str) -> None:
        if name != self._plan.dies_at:
            return
        with self._lock:
            self._left -= 1
            if self._left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def order(self, number: int, chance: random.Random) -> None:
        receipt = self._group.half_nowait(str(number), key=str(number))
        self._step("half")
        with receipt.result() as half:
            self._step("open")
            self._transact(half.id, number)
            self._step("happened")
            if chance.random() < 0.1:
                return  # the block's end commits it
            committing = half.commit()
            self._step("committing")
            committing.result()
            self._step("committed")

    def _transact(self, half_id: str, number: int) -> None:
        database = connected(self._plan.database)
        try:
            database.execute("BEGIN IMMEDIATE")
            if self._plan.pause_s:
                database.execute("ROLLBACK")  # others need not wait
                time.sleep(self._plan.pause_s)
                database.execute("BEGIN IMMEDIATE")
            about = (half_id, number, os.getpid())
            database.execute("INSERT INTO orders VALUES (?, ?, 'ordered', ?)", about)
            self._step("inside")
            database.execute("COMMIT")
        finally:
            database.close()


def main() -> None:
    plan = msgspec.json.decode(sys.argv[1], type=ShopPlan)

    def check(half_id: str, payload: bytes) -> marq.Check:
        time.sleep(plan.slow_s)
        return checked(plan.database, half_id)

    with marq.connect(f"kafka://{plan.servers}") as broker:
        queue = broker.queue(plan.queue)
        group = queue.producer_group(
            f"g{plan.queue}", check=check, check_after=plan.check_after, check_every="1s"
        )
        print("ready", flush=True)
        shop = Shop(plan, group)
        hands = [
            threading.Thread(target=take, args=(shop, plan, number), daemon=True)
            for number in range(plan.threads)
        ]
        for hand in hands:
            hand.start()
        for hand in hands:
            hand.join()
        queue.flush()
        print("done", flush=True)
        sys.stdin.read()  # a member until it is told to go


def take(shop: Shop, plan: ShopPlan, hand: int) -> None:
    chance = random.Random(plan.seed * 1_000 + hand)
    for number in range(hand, plan.orders, plan.threads):
        try:
            shop.order(number, chance)
        except (sqlite3.Error, marq.QueueError) as error:
            print("failed", type(error).__name__, flush=True)


if __name__ == "__main__":
    main()
