"""The threads that handlers run in."""

from __future__ import annotations

import threading

import marq


def test_no_message_waits_for_a_slow_handler_while_there_are_free_hands() -> None:
    for _ in range(20):
        all_of_them = threading.Barrier(9)  # eight handlers at once, and this test
        with marq.connect("memory://") as broker:
            queue = broker.queue("orders")

            @queue.handler(concurrency=8)
            def handle(payload: bytes, barrier: threading.Barrier = all_of_them) -> None:
                barrier.wait(10)

            queue.send_many([b"x"] * 8)
            with broker.worker(queue):
                all_of_them.wait(10)
