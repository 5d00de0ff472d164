"""What a process does that ends, forks or lets go of its broker without closing it.

Run as `python -m tests.kafka.lifetimes SCENE SERVERS QUEUE`; prints what came of it.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import threading
import time
from typing import Any

import marq

PATIENCE_S = 30.0


def take(queue: marq.Queue[Any], number: int) -> list[marq.Delivery[Any]]:
    found: list[marq.Delivery[Any]] = []
    until = time.monotonic() + PATIENCE_S
    while len(found) < number and time.monotonic() < until:
        found += queue.receive(number - len(found), "5s")
    assert len(found) == number, found
    return found


def connect(servers: str, name: str) -> tuple[marq.Broker, marq.Queue[Any]]:
    broker = marq.connect(f"kafka://{servers}")
    return broker, broker.queue(name)


def error_of(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return "none"


def falls_off_the_end(servers: str, name: str) -> None:
    broker, queue = connect(servers, name)
    for delivery in take(queue, 20):
        delivery.ack()
    for _ in range(1_000):
        queue.send_nowait(b"sent")
    globals()["kept"] = broker  # refers to it until the end


def lets_go(servers: str, name: str) -> None:
    broker, queue = connect(servers, name)
    found = take(queue, 20)
    for delivery in found[1:]:
        delivery.ack()
    for _ in range(1_000):
        queue.send_nowait(b"sent")
    del broker, queue
    gc.collect()
    found.pop(0).ack().result(PATIENCE_S)  # though nobody refers to the broker
    until = time.monotonic() + PATIENCE_S
    while any(each.name.startswith("marq-flusher") for each in threading.enumerate()):
        assert time.monotonic() < until, threading.enumerate()
        time.sleep(0.05)
    os._exit(0)


def ends_by_multiprocessing(servers: str, name: str) -> None:
    process = multiprocessing.get_context("fork").Process(
        target=falls_off_the_end, args=(servers, name)
    )
    process.start()
    process.join(PATIENCE_S * 2)
    print("exit", process.exitcode)


def forks(servers: str, name: str) -> None:
    broker, queue = connect(servers, name)
    first, second = take(queue, 2)
    pending = queue.send_nowait(b"parent")
    child = os.fork()
    if not child:
        said = {
            "ack": error_of(first.ack),
            "retry": error_of(lambda: second.retry("1s")),
            "extend": error_of(lambda: second.extend("1m")),
            "pending": "none" if pending.done() else error_of(pending.result),
            "send": queue.send(b"child").topic == name,
            "receive": _sent_and_received(broker.queue(f"{name}-child")),
            "flush": error_of(queue.flush),
        }
        print("child", said, flush=True)
        broker.close()
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    print("exit", status)
    for delivery in (first, second):
        delivery.ack().result(PATIENCE_S)
    broker.close()


def _sent_and_received(queue: marq.Queue[Any]) -> bytes:
    queue.send(b"here")
    (delivery,) = take(queue, 1)
    delivery.ack().result(PATIENCE_S)
    payload: bytes = delivery.payload
    return payload


def forks_and_only_ends(servers: str, name: str) -> None:
    """A child that uses nothing, with all of Python's way to end."""
    broker, queue = connect(servers, name)
    found = take(queue, 20)
    with broker.worker(_handling(queue)) as worker:
        child = os.fork()
        if not child:
            print("child", error_of(worker.wait), flush=True)
            del broker, queue, found
            gc.collect()
            sys.exit(0)
    _, status = os.waitpid(child, 0)
    print("exit", status)
    for delivery in found:
        delivery.ack().result(PATIENCE_S)
    broker.close()


def _handling(queue: marq.Queue[Any]) -> marq.Queue[Any]:
    queue.handler()(lambda payload: None)
    return queue


def preloads(servers: str, name: str) -> None:
    """As a server that connects before it forks its workers."""
    _, queue = connect(servers, name)
    queue.send(b"preloaded")

    def work() -> None:
        queue.send(b"worked")
        take(queue, 1)[0].ack()

    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE_S * 2)
    print("exit", [worker.exitcode for worker in workers])
    queue.send(b"afterwards")


if __name__ == "__main__":
    scene, servers, name = sys.argv[1:]
    globals()[scene](servers, name)
