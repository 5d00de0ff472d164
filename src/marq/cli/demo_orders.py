"""The demo's own application: what its worker processes run."""

from __future__ import annotations

import time

import marq
from marq.cli.demo_handled import ANSWERS, BEGUN, HANDLED, LONG, POISON, Notebook

CONCURRENCY = 8
WORK_S = 0.005

broker = marq.connect()
orders = broker.queue("orders")
begun, handled = Notebook(BEGUN), Notebook(HANDLED)


@orders.handler(concurrency=CONCURRENCY)
def charge(order: bytes, delivery: marq.Delivery[bytes]) -> None:
    """Take a moment, as work does; returning is the ack."""
    time.sleep(WORK_S)
    if order == POISON:
        raise ValueError("this order cannot be charged")
    if order.startswith(LONG):
        _wait_for_an_answer(delivery)
    handled.note(delivery)


def _wait_for_an_answer(delivery: marq.Delivery[bytes]) -> None:
    """As from a bank that does not answer, until it does."""
    orders.flush()  # from here on the log knows that the handler has begun
    begun.note(delivery)
    while not ANSWERS.exists():
        time.sleep(0.05)
