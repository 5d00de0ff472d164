"""The demo's own application: what its worker processes run."""

from __future__ import annotations

import time

import marq
from marq.cli.demo_handled import POISON, Notebook

CONCURRENCY = 4
WORK_S = 0.005

broker = marq.connect()
orders = broker.queue("orders")
notebook = Notebook()


@orders.handler(concurrency=CONCURRENCY)
def charge(order: bytes, delivery: marq.Delivery[bytes]) -> None:
    """Take a moment, as work does; returning is the ack."""
    time.sleep(WORK_S)
    if order == POISON:
        raise ValueError("this order cannot be charged")
    notebook.note(delivery)
