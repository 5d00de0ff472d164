"""Half messages: an order and the message about it, both or neither.

The table's unique key decides between the local transaction and a check that says no: whichever
inserts first is right for ever.
"""

import logging
import sqlite3
import tempfile
import time
from pathlib import Path

import marq

PATH = Path(tempfile.mkdtemp()) / "shop.db"


def connect() -> sqlite3.Connection:
    return sqlite3.connect(PATH, timeout=30)


def was_committed(half_id: str, payload: bytes) -> marq.Check:
    database = connect()
    try:
        with database:  # one transaction: insert, or find what is there
            database.execute(
                "INSERT OR IGNORE INTO orders VALUES (?, NULL, 'rolled back')", (half_id,)
            )
            (state,) = database.execute(
                "SELECT state FROM orders WHERE half_id = ?", (half_id,)
            ).fetchone()
    finally:
        database.close()
    return marq.COMMIT if state == "ordered" else marq.ROLLBACK


def order(number: int) -> None:
    with shop.half({"order": number}, key=str(number)) as half:
        database = connect()
        try:
            with database:
                database.execute("INSERT INTO orders VALUES (?, ?, 'ordered')", (half.id, number))
        finally:
            database.close()


def order_and_lose_the_connection(number: int) -> None:
    with shop.half({"order": number}) as half:
        database = connect()
        with database:
            database.execute("INSERT INTO orders VALUES (?, ?, 'ordered')", (half.id, number))
        database.close()
        raise ConnectionError("the answer to COMMIT was lost")


def order_too_much(number: int) -> None:
    with shop.half({"order": number}):
        raise marq.Rollback


setup = connect()
with setup:
    setup.execute(
        "CREATE TABLE orders (half_id TEXT PRIMARY KEY, number INTEGER, state TEXT NOT NULL)"
    )
setup.close()
logging.getLogger("marq").setLevel(logging.ERROR)

with marq.connect("memory://") as broker:
    orders = broker.queue("orders")
    shop = orders.producer_group("shop", check=was_committed)

    order(1)
    order_too_much(2)
    try:
        order_and_lose_the_connection(3)  # the process asks its own check at once
    except ConnectionError:
        print("order 3: the connection was lost")

    abandoned = shop.half({"order": 4})  # a process that dies here leaves it open
    del abandoned
    broker.clock.advance("11m")  # nobody extends it any more: the group is asked, says no, means it

    while orders.stats().halves:
        time.sleep(0.01)

    for delivery in sorted(orders.receive(10), key=lambda each: each.payload["order"]):
        print("delivered:", delivery.payload)
        delivery.ack()

database = connect()
for row in database.execute("SELECT number, state FROM orders ORDER BY number"):
    print("in the database:", row)
database.close()
