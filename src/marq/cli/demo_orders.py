"""The demo's own application: what its worker processes run."""

from __future__ import annotations

import time

import marq

CONCURRENCY = 16
WORK_S = 0.02

broker = marq.connect()
orders = broker.queue("orders", lease="30s")


@orders.handler(concurrency=CONCURRENCY)
def charge(order: bytes) -> None:
    """Take a moment, as work does; returning is the ack."""
    time.sleep(WORK_S)
