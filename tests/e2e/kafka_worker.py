"""A worker process for tests: says on stdout what it does, and dies where it is told to.

Every line is written before the next step is taken, so what a killed worker said is true.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import queue
import signal
import sys
import threading
import time

import msgspec

import marq
from marq.kafka.backend import Kafka
from marq.kafka.receiving import prefetch, pump
from tests.e2e import kafka_windows
from tests.e2e.kafka_windows import say


class Plan(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What the worker is to do."""

    servers: str
    queues: list[str]
    concurrency: int = 4
    work_s: float = 0.0
    """How long a handler takes."""
    timeout: str = "12h"
    """How long it may take."""
    drain: str = "30s"
    window: str = ""
    nth: int = 1
    delay_s: float = 0.0
    batch: int = 0
    """Messages polled at once at most; 0: as many as the product likes."""
    idle_s: float = pump.IDLE_S


Reports = queue.SimpleQueue[tuple[str, marq.Receipt[None]] | None]


def obey(payload: bytes) -> None:
    """Some messages say what is to become of their handler."""
    match payload:
        case b"exit":
            os._exit(9)
        case b"raise":
            raise ValueError("as the message wants")
        case b"hang":
            time.sleep(3_600)


def handle_all(broker: marq.Broker, plan: Plan, reports: Reports) -> list[marq.Queue[bytes]]:
    queues = [broker.queue(name, type=bytes) for name in plan.queues]

    def handle(payload: bytes, delivery: marq.Delivery[bytes]) -> None:
        about = f"{delivery._stored.address} {delivery.message_id} {delivery.attempt}"
        say("begun", about)
        obey(payload)
        if plan.work_s:
            time.sleep(plan.work_s)
        say("done", about)
        try:
            reports.put((about, delivery.ack()))
        except marq.LeaseLost:
            say("lost", about)

    for each in queues:
        each.handler(concurrency=plan.concurrency, timeout=plan.timeout)(handle)
    return queues


def tell(reports: Reports) -> None:
    """Say of each ack whether the log took it."""
    while found := reports.get():
        about, receipt = found
        try:
            receipt.result()
        except marq.LeaseLost:
            say("lost", about)
        else:
            say("acked", about)


def worker_id(broker: marq.Broker) -> int:
    """Whose claims these are in the log."""
    assert isinstance(broker.backend, Kafka)
    return broker.backend.markers.worker


def main() -> None:
    plan = msgspec.json.decode(sys.argv[1], type=Plan)
    logging.basicConfig(level=logging.WARNING)
    faulthandler.register(signal.SIGUSR1)  # where it stands, for whoever looks
    if plan.window:
        kafka_windows.arm(plan.window, plan.nth, plan.delay_s)
    if plan.batch:  # poll few messages at once, so that there are many claims
        prefetch.BATCH = plan.batch
    pump.IDLE_S = plan.idle_s
    reports: Reports = queue.SimpleQueue()
    teller = threading.Thread(target=tell, args=(reports,), daemon=True)
    teller.start()
    with (
        marq.connect(f"kafka://{plan.servers}", drain_timeout=plan.drain) as broker,
        broker.worker(*handle_all(broker, plan, reports)) as worker,
    ):
        say("worker", worker_id(broker))
        say("ready")
        worker.wait()
    reports.put(None)
    teller.join()
    say("ended")


if __name__ == "__main__":
    main()
