"""The recipe of half messages, raced: local transactions that commit while their check runs."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections import Counter
from pathlib import Path

import marq
from marq.core.markers.marker import HalfAnswer
from tests.e2e import halves_shop

RACES = 500


def test_an_order_without_its_message_or_a_message_without_its_order_never_is(
    tmp_path: Path,
) -> None:
    path = tmp_path / "orders.db"
    halves_shop.create(path)
    chance = random.Random(7)

    def check(half_id: str, payload: bytes) -> marq.Check:
        return halves_shop.checked(str(path), half_id)

    with marq.connect("memory://") as broker:
        orders = broker.queue("orders")
        shop = orders.producer_group("shop", check=check, check_after="1h")
        refs = broker.backend.halves.seen

        for number in range(RACES):
            half = shop.half(str(number))
            ref = refs()[-1].ref
            start = threading.Barrier(2)
            asks_first = chance.random() < 0.5

            def ask(half_id: str = half.id, wait: threading.Barrier = start) -> None:
                wait.wait()
                verdict = check(half_id, b"")
                broker.backend.halves.answer(0, HalfAnswer((ref,), verdict))  # noqa: B023

            asked = threading.Thread(target=ask)
            asked.start()
            database = halves_shop.connected(str(path))
            start.wait()
            if asks_first:
                asked.join()
            try:
                database.execute(
                    "INSERT INTO orders VALUES (?, ?, 'ordered', 0)", (half.id, number)
                )
                half.commit().result()
            except sqlite3.IntegrityError:
                half.rollback().result()
            finally:
                database.close()
                asked.join()

        found = Counter(d.message_id for d in orders.receive(2 * RACES))
        database = halves_shop.connected(str(path))
        rows = database.execute("SELECT half_id, state FROM orders").fetchall()
        database.close()

    ordered = {half_id for half_id, state in rows if state == "ordered"}
    assert len(rows) == RACES and 0 < len(ordered) < RACES
    assert found.keys() == ordered
