"""The demo's rate: one process, a queue of small messages, each acked alone."""

from __future__ import annotations

import time

import marq
from marq.cli.demo_stage import Summary, say
from marq.cli.demo_workers import PATIENCE_S, stuck

MESSAGES = 300_000
PAYLOAD = b"x" * 100
_AT_ONCE = 500


def show(broker: marq.Broker, summary: Summary) -> None:
    """Send, then receive and ack, with nothing in between that takes time."""
    rates: marq.Queue[object] = broker.queue("rates")
    sent = _send(rates)
    say(
        f"{MESSAGES:,} messages of 100 bytes sent by one process, all durable: {sent:,.0f} a second"
    )
    acked = _receive_and_ack(rates)
    say(f"received and acked, each alone, by one process: {acked:,.0f} a second")
    say("  (broker, tracker and client share this machine; `marq bench` measures it with care)")
    summary.add_row("one process sends 100-byte messages", f"{sent:,.0f}/s")
    summary.add_row("one process receives and acks each alone", f"{acked:,.0f}/s")


def _send(queue: marq.Queue[object]) -> float:
    started = time.monotonic()
    for _ in range(MESSAGES):
        queue.send_nowait(PAYLOAD)
    queue.flush()
    return MESSAGES / (time.monotonic() - started)


def _receive_and_ack(queue: marq.Queue[object]) -> float:
    """From the first one on: finding the partitions is no part of a rate."""
    acked, started = 0, 0.0
    while acked < MESSAGES:
        deliveries = queue.receive(max=_AT_ONCE, wait=PATIENCE_S)
        if not deliveries:
            raise stuck("all messages were received")
        started = started or time.monotonic()
        for delivery in deliveries:
            delivery.ack()
        acked += len(deliveries)
    queue.flush()
    return acked / (time.monotonic() - started)
