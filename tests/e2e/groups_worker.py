"""An instance of an ordered group as a process: says what it does before it does the next thing."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time

import msgspec

import marq
from tests.e2e.kafka_windows import say


class Plan(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What the instance is to do."""

    servers: str
    queue: str
    group: str
    member: str
    work_s: float = 0.0
    double: bool = True
    """Ack each message durably, or let acks wait for others."""
    deadly: str = ""
    """A payload that ends the process."""


def main() -> None:
    plan = msgspec.json.decode(sys.argv[1], type=Plan)
    faulthandler.register(signal.SIGUSR1)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())

    def handle(delivery: marq.GroupDelivery) -> None:
        about = f"{delivery.partition} {delivery.offset} {delivery.fence} {delivery.payload}"
        say("begun", about)
        if plan.deadly and delivery.payload == plan.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        if plan.work_s:
            time.sleep(plan.work_s)
        try:
            if plan.double:
                delivery.double_ack()
                say("acked", about)
            else:
                delivery.ack()
        except marq.Fenced:
            say("fenced", about)

    with marq.connect(f"kafka://{plan.servers}") as broker:
        group = broker.group(plan.queue, plan.group)
        instance = group.consume(
            plan.member,
            handle,
            on_activate=lambda it: say("active", it.id),
            on_deactivate=lambda it: say("inactive", it.id),
        )
        say("ready", plan.member)
        while not stopping.wait(0.05) and not instance.ended:
            pass
        instance.stop()
        instance.wait()
    say("ended")


if __name__ == "__main__":
    main()
