"""The processes of a measurement of latency: one sends, one receives and says how long it took."""

from __future__ import annotations

import os
import secrets
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

import msgspec
from confluent_kafka import Consumer, Producer, ShareConsumer, TopicPartition

import marq
from marq import threads
from marq.bench.altering import alter_group
from marq.bench.latency import Task
from marq.bench.plan import PARTITIONS
from marq.kafka.client import config

_PADDING = bytes(92)
_WARM = 0
"""The stamp of a message that is not measured."""
_WARM_EVERY_S = 0.1
_THREADS = 4
"""That send at the higher rate, each message by itself, as those of a server do."""
_POLL_S = 1.0

Take = Callable[[bytes], None]
Send = Callable[[bytes], object]


def _stamped() -> bytes:
    """A payload that says when it was sent, by the machine's clock."""
    return time.monotonic_ns().to_bytes(8, "big") + _PADDING


class Arrivals:
    """How long messages took until now; says so when all are there."""

    def __init__(self, messages: int) -> None:
        self._messages = messages
        self._ms: list[float] = []
        self._warm = False
        self.all = threading.Event()

    def take(self, payload: bytes) -> None:
        now, sent = time.monotonic_ns(), int.from_bytes(payload[:8], "big")
        if sent != _WARM:
            self._ms.append((now - sent) / 1e6)
        elif not self._warm:
            self._warm = True
            print("ready", flush=True)
        if len(self._ms) >= self._messages:
            self.all.set()

    def say(self) -> None:
        print(msgspec.json.encode(self._ms).decode(), flush=True)


# Receivers.


def receive(task: Task) -> None:
    arrivals = Arrivals(task.messages)
    {"poll": _poll, "share": _share, "receive": _receive, "handler": _handler}[task.variant](
        task, arrivals
    )
    arrivals.say()


def _poll(task: Task, arrivals: Arrivals) -> None:
    consumer = Consumer(config.reader(task.servers, {}))
    consumer.assign([TopicPartition(task.queue, number, 0) for number in range(PARTITIONS)])
    while not arrivals.all.is_set():
        message = consumer.poll(_POLL_S)
        if message is not None and message.error() is None:
            arrivals.take(message.value() or b"")
    consumer.close()


def _share(task: Task, arrivals: Arrivals) -> None:
    group = f"bench.{secrets.token_hex(8)}"
    alter_group(task.servers, group, "share.auto.offset.reset", "earliest")
    explicit = {"group.id": group, "share.acknowledgement.mode": "explicit"}
    settings = {**config.common(task.servers, {}), **explicit}
    del settings["allow.auto.create.topics"]  # share consumers do not know it yet
    consumer = ShareConsumer(settings)
    consumer.subscribe([task.queue])
    while not arrivals.all.is_set():
        for message in consumer.poll(_POLL_S):
            arrivals.take(message.value() or b"")
            consumer.acknowledge(message)
    consumer.close()


def _receive(task: Task, arrivals: Arrivals) -> None:
    with marq.connect(f"kafka://{task.servers}") as broker:
        queue = broker.queue(task.queue)
        while not arrivals.all.is_set():
            for delivery in queue.receive(wait=_POLL_S):
                arrivals.take(delivery.payload)
                delivery.ack()


def _handler(task: Task, arrivals: Arrivals) -> None:
    with marq.connect(f"kafka://{task.servers}") as broker:
        queue = broker.queue(task.queue)

        @queue.handler()
        def handle(payload: bytes) -> None:
            arrivals.take(payload)

        with broker.worker(queue):
            arrivals.all.wait()


# Senders.


def send(task: Task) -> None:
    if task.variant in ("poll", "share", "flush"):
        producer = Producer(config.producer(task.servers, {}, 0))
        polling = threading.Event()
        if task.rate:  # reports are heard as they come
            threads.start(partial(_hear, producer, polling), "bench-reports", _die)

        def produce(payload: bytes) -> None:
            producer.produce(task.queue, payload)
            if not task.rate:
                producer.flush()

        _at_pace(task, produce)
        polling.set()
        producer.flush()
    else:
        with marq.connect(f"kafka://{task.servers}") as broker:
            _at_pace(task, broker.queue(task.queue).send)


def _hear(producer: Producer, ended: threading.Event) -> None:
    while not ended.is_set():
        producer.poll(0.1)


def _at_pace(task: Task, one: Send) -> None:
    if not task.rate:
        return _one_by_one(task, one)
    told = threading.Event()
    threads.start(partial(_listen, told), "bench-told", _die)
    while not told.wait(_WARM_EVERY_S):
        one(bytes(8) + _PADDING)
    step = _THREADS if task.rate >= 100 else 1
    began = time.monotonic()
    senders = [
        threads.start(partial(_share_of, task, one, began, first, step), "bench-sender", _die)
        for first in range(step)
    ]
    for sender in senders:
        sender.join()


def _listen(told: threading.Event) -> None:
    sys.stdin.readline()
    told.set()


def _share_of(task: Task, one: Send, began: float, first: int, step: int) -> None:
    """Every so manieth message, at its time."""
    for number in range(first, task.messages, step):
        left_s = began + number / task.rate - time.monotonic()
        if left_s > 0:
            time.sleep(left_s)
        one(_stamped())


def _one_by_one(task: Task, one: Send) -> None:
    for _ in range(10):
        one(bytes(8) + _PADDING)
    found = []
    for _ in range(task.messages):
        payload, began = _stamped(), time.monotonic()
        one(payload)
        found.append((time.monotonic() - began) * 1e3)
    print(msgspec.json.encode(found).decode(), flush=True)


def _end_late(patience_s: float) -> None:
    time.sleep(patience_s)
    _die(TimeoutError())


def _die(error: BaseException) -> None:
    os._exit(1)


def main() -> None:
    role, patience_s, about = sys.argv[1:]
    threads.start(partial(_end_late, float(patience_s)), "bench-end", _die)
    {"sender": send, "receiver": receive}[role](msgspec.json.decode(about, type=Task))


if __name__ == "__main__":
    main()
