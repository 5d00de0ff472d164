"""A process of the tracker's benchmark: says as JSON what it was handed, and when.

The broker runs on this machine, so its clock is this one.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

import msgspec
from confluent_kafka import Producer

import marq


class Job(msgspec.Struct, frozen=True):
    """What the process is to do."""

    servers: str
    queue: str
    mode: str
    """hang, abandon: never ack, as handler or by pull; handle, pull: ack at once; fill: send at
    `rate`; drain: receive and ack all there is; take: receive `number` and never ack."""
    rate: int = 0
    number: int = 0


_saying = threading.Lock()


def say(**what: Any) -> None:
    with _saying:
        print(json.dumps(what), flush=True)


def handed_out(delivery: marq.Delivery[Any], at_s: float) -> None:
    meta = delivery._stored.meta()
    say(
        id=delivery.message_id,
        at_ms=at_s * 1_000,
        due_ms=meta.due_at(delivery._stored.at_ms),
        written_ms=delivery._stored.at_ms,
        copies=meta.copies,
        attempt=delivery.attempt,
    )


def handle(queue: marq.Queue[bytes], broker: marq.Broker, acks: bool) -> None:
    """A worker with automatic keep-alive."""

    @queue.handler(concurrency=16)
    def work(payload: bytes, delivery: marq.Delivery[bytes]) -> None:
        handed_out(delivery, time.time())
        if not acks:
            time.sleep(3_600)

    with broker.worker(queue) as worker:
        say(ready=True)
        worker.wait()


def pull(queue: marq.Queue[bytes], acks: bool) -> None:
    """A consumer without keep-alive."""
    queue.receive(1, "0s")
    say(ready=True)
    while True:
        deliveries = queue.receive(100, "1s")
        now = time.time()
        for delivery in deliveries:
            if acks:
                delivery.ack()
            handed_out(delivery, now)


def fill(job: Job) -> None:
    """Plain records, at a rate."""
    settings = {"bootstrap.servers": job.servers, "linger.ms": 5, "acks": "all"}
    producer = Producer({**settings, "queue.buffering.max.messages": 1_000_000})
    began, sent = time.monotonic(), 0
    say(ready=True)
    while True:
        due = int((time.monotonic() - began) * job.rate)
        for _ in range(due - sent):
            try:
                producer.produce(job.queue, b"x" * 100)
            except BufferError:  # slower than wanted: then that is the load
                break
            sent += 1
        producer.poll(0.005)


def drain(queue: marq.Queue[bytes]) -> None:
    """Receive and ack; say each second how many."""
    count, then = 0, time.monotonic()
    say(ready=True)
    while True:
        for delivery in queue.receive(5_000, "100ms"):
            delivery.ack()
            count += 1
        if time.monotonic() >= then + 1:
            say(rate=count / (time.monotonic() - then))
            count, then = 0, time.monotonic()


def take(queue: marq.Queue[bytes], number: int) -> None:
    left = number
    while left:
        left -= len(queue.receive(left, "5s"))
    queue.flush()
    say(taken=number)
    time.sleep(3_600)


def run(job: Job) -> None:
    if job.mode == "fill":
        return fill(job)
    with marq.connect(f"kafka://{job.servers}") as broker:
        queue: marq.Queue[bytes] = broker.queue(job.queue)
        match job.mode:
            case "hang" | "handle":
                handle(queue, broker, acks=job.mode == "handle")
            case "abandon" | "pull":
                pull(queue, acks=job.mode == "pull")
            case "drain":
                drain(queue)
            case "take":
                take(queue, job.number)


if __name__ == "__main__":
    run(msgspec.json.decode(sys.argv[1], type=Job))
