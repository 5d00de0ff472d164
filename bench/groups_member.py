"""A process of the benchmark of ordered groups: says as JSON what it did, and when."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

import msgspec
from confluent_kafka import Consumer, TopicPartition

import marq


class Job(msgspec.Struct, frozen=True):
    """What the process is to do."""

    servers: str
    queue: str
    member: str
    mode: str
    """ack, double, bare; or say: tell of each message at once."""
    messages: int = 0
    """Of the whole group; the process ends when its own are done."""


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def bare(job: Job) -> None:
    """Consume and commit, as anyone would without a group."""
    settings = {
        "bootstrap.servers": job.servers,
        "group.id": "bare",
        "enable.auto.commit": False,
        "fetch.queue.backoff.ms": 5,
        "queued.min.messages": 100_000,
    }
    consumer = Consumer(settings)
    topic = f"{job.queue}.group.g"
    consumer.assign([TopicPartition(topic, number, 0) for number in range(8)])
    count, first = 0, 0.0
    while count < job.messages:
        batch = consumer.consume(2_000, 0.05)
        first = first or (time.time() if batch else 0.0)
        count += len(batch)
        if batch:
            consumer.commit(asynchronous=False)
    say(first=first, last=time.time(), count=count)
    consumer.close()


def member(job: Job) -> None:
    """One instance."""
    times: list[float] = []
    count = 0
    done = threading.Event()

    def handle(delivery: Any) -> None:
        nonlocal count
        if not count:
            times.append(time.time())
        count += 1
        delivery.double_ack() if job.mode == "double" else delivery.ack()
        if count == job.messages:
            done.set()

    def tell(delivery: Any) -> None:
        say(at=time.time(), partition=delivery.partition)
        delivery.ack()

    with marq.connect(f"kafka://{job.servers}") as broker:
        group = broker.group(job.queue, "g")
        handler = tell if job.mode == "say" else handle
        with group.consume(job.member, handler, on_activate=lambda it: say(active=time.time())):
            say(ready=job.member)
            done.wait()
        say(first=times[0], last=time.time(), count=count)


if __name__ == "__main__":
    told = msgspec.json.decode(sys.argv[1], type=Job)
    bare(told) if told.mode == "bare" else member(told)
