"""What is measured of marq, by its public API."""

from __future__ import annotations

import sys
import threading
from itertools import count
from typing import Any

import marq
from marq.bench.bare import PATIENCE_S, refuse_none
from marq.bench.meter import Meter
from marq.bench.plan import Measurement
from marq.errors import RuntimeFailed

RECEIVE = 1_000
_SLOWEST = 1_000
"""Messages a second below which something is wrong."""
_ALMOST = 0.95


def pull(job: Measurement, meter: Meter) -> None:
    """Receive and ack every message; done when all acks are durable."""
    with _connect(job) as broker:
        queue = broker.queue(job.queue)
        left = job.messages
        while left > 0:
            deliveries = queue.receive(max=RECEIVE, wait=PATIENCE_S)
            refuse_none(deliveries)
            meter.first(len(deliveries))
            for delivery in deliveries:
                delivery.ack()
            left -= len(deliveries)
        queue.flush()
        meter.last()


def half(job: Measurement, meter: Meter) -> None:
    """The same in one of two processes: from when both are told to begin, to where almost all of
    its half is done."""
    with _connect(job) as broker:
        queue = broker.queue(job.queue)
        for delivery in queue.receive(wait=PATIENCE_S):
            delivery.ack()
        print("ready", flush=True)
        sys.stdin.readline()
        meter.first(0)
        done = 0
        while done < job.messages * _ALMOST:
            done += _receive_and_ack(queue)
        queue.flush()
        meter.last(done)
        while _receive_and_ack(queue):
            pass


def _receive_and_ack(queue: marq.Queue[Any]) -> int:
    deliveries = queue.receive(max=RECEIVE, wait="1s")
    for delivery in deliveries:
        delivery.ack()
    return len(deliveries)


def handler(job: Measurement, meter: Meter) -> None:
    """A sync handler that does nothing, one message a call."""
    numbers, done = count(1), threading.Event()

    def handle(payload: bytes) -> None:
        number = next(numbers)
        if number == 1:
            meter.first(1)
        if number >= job.messages:
            done.set()

    _work(job, meter, handle, done, batch=False)


def batch(job: Measurement, meter: Meter) -> None:
    """A sync handler that is handed lists of messages."""
    counting, done = threading.Lock(), threading.Event()
    handled = 0

    def handle(payloads: list[bytes]) -> None:
        nonlocal handled
        with counting:
            meter.first(len(payloads))
            handled += len(payloads)
        if handled >= job.messages:
            done.set()

    _work(job, meter, handle, done, batch=True)


def _work(
    job: Measurement, meter: Meter, handle: Any, done: threading.Event, *, batch: bool
) -> None:
    with _connect(job) as broker:
        queue = broker.queue(job.queue)
        queue.handler(batch=batch)(handle)
        with broker.worker(queue):
            if not done.wait(PATIENCE_S + job.messages / _SLOWEST):
                raise RuntimeFailed("the worker did not get on")
            queue.flush()
            meter.last()


def send(job: Measurement, meter: Meter) -> None:
    """Send without waiting for each; done when all are durable."""
    with _connect(job) as broker:
        queue = broker.queue(job.queue)
        queue.send(b"")  # connects, as the bare producer has by then
        payload = bytes(job.size)
        meter.first(0)
        for _ in range(job.messages):
            queue.send_nowait(payload)
        queue.flush()
        meter.last()


def hold(job: Measurement, meter: Meter) -> None:
    """Receive and keep: memory is what counts here."""
    with _connect(job) as broker:
        queue, held = broker.queue(job.queue), list[Any]()
        while len(held) < job.messages:
            limit = min(RECEIVE, job.messages - len(held))
            deliveries = queue.receive(max=limit, wait=PATIENCE_S, lease="10m")
            refuse_none(deliveries)
            meter.first(len(deliveries))
            held += deliveries
        queue.flush()
        meter.last()


def _connect(job: Measurement) -> marq.Broker:
    return marq.connect(f"kafka://{job.servers}")
