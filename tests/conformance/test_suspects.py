"""Suspects: a message that may have killed its process runs alone in the next one."""

from __future__ import annotations

import asyncio
import threading
import time
from queue import SimpleQueue
from typing import Any

import pytest
from msgspec.structs import replace

import marq
from marq.core.messages import header, sending
from marq.core.messages.header import Meta
from marq.kafka.marking import markers
from tests.conformance.world import World


def send_suspect(queue: marq.Queue[Any], payload: str) -> None:
    """A message marked as the tracker marks its copies."""
    message = sending.message(payload)
    headers = header.join(Meta(suspect=True), message.headers)
    queue._backend.send(queue.name, replace(message, headers=headers)).result(60)


class Journal:
    """When which handler began and ended."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self._ended: SimpleQueue[str] = SimpleQueue()
        self.go_on = threading.Event()
        self.started = threading.Event()

    def sync(self, payload: str) -> None:
        self.begin(payload)
        if payload == "slow":
            self.go_on.wait(100)
        else:
            time.sleep(0.02)
        self.end(payload)

    async def on_a_loop(self, payload: str) -> None:
        self.begin(payload)
        while payload == "slow" and not self.go_on.is_set():
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.02)
        self.end(payload)

    def begin(self, payload: str) -> None:
        self.lines.append(("begin", payload))
        if payload == "slow":
            self.started.set()

    def end(self, payload: str) -> None:
        self.lines.append(("end", payload))
        self._ended.put(payload)

    def wait_for(self, world: World, number: int) -> None:
        for _ in range(number):
            self._ended.get(timeout=world.patience_s)

    def beside(self, payload: str) -> list[tuple[str, str]]:
        """What happened between its begin and its end."""
        begin, end = self.lines.index(("begin", payload)), self.lines.index(("end", payload))
        return self.lines[begin + 1 : end]


def handled(queue: marq.Queue[Any], journal: Journal, kind: str) -> marq.Queue[Any]:
    queue.handler(concurrency=4)(journal.sync if kind == "sync" else journal.on_a_loop)
    return queue


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_suspect_runs_alone_whatever_other_queues_the_process_has(
    world: World, kind: str
) -> None:
    journal = Journal()
    orders = handled(world.queue(), journal, kind)
    bills = handled(world.queue(), journal, kind)
    orders.send("slow")

    with world.broker.worker(orders, bills):
        assert journal.started.wait(world.patience_s)
        send_suspect(orders, "suspect")
        world.wait_until(lambda: orders.inbox().suspects())
        for number in range(10):
            orders.send(f"order {number}")
            bills.send(f"bill {number}")
        journal.go_on.set()
        journal.wait_for(world, 22)

    assert journal.beside("suspect") == []
    assert ("begin", "suspect") not in journal.beside("slow")


def test_two_suspects_run_one_after_the_other(world: World) -> None:
    journal = Journal()
    orders = handled(world.queue(), journal, "sync")
    send_suspect(orders, "1")
    send_suspect(orders, "2")

    with world.broker.worker(orders):
        journal.wait_for(world, 2)

    assert journal.beside("1") == journal.beside("2") == []


def test_no_ack_is_on_its_way_while_a_suspect_runs_nor_the_suspect_s_own_when_others_begin(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(markers, "FLUSH_S", 0.5)  # acks gather for as long
    orders = world.queue()
    acks: dict[str, marq.Receipt[None]] = {}
    on_their_way: list[tuple[str, str]] = []
    seen: SimpleQueue[str] = SimpleQueue()

    @orders.handler(concurrency=1)
    def handle(payload: str, delivery: marq.Delivery[str]) -> None:
        for other, ack in list(acks.items()):
            if "suspect" in payload + other and not ack.done():
                on_their_way.append((payload, other))
        acks[payload] = delivery.ack()
        seen.put(payload)

    with world.broker.worker(orders):
        for round_number in range(3):
            orders.send(f"order {round_number}")
            send_suspect(orders, f"suspect {round_number}")
        for _ in range(6):
            seen.get(timeout=world.patience_s)

    assert on_their_way == []


def test_a_suspect_does_not_wait_for_others_longer_than_a_lease(world: World) -> None:
    orders = world.queue(lease="1s")
    seen: SimpleQueue[str] = SimpleQueue()
    started, suspect_ran = threading.Event(), threading.Event()

    @orders.handler(concurrency=4)
    def handle(payload: str) -> None:
        if payload == "suspect":
            suspect_ran.set()
        else:
            started.set()
            suspect_ran.wait(100)
        seen.put(payload)

    orders.send("slow")
    with world.broker.worker(orders):
        assert started.wait(world.patience_s)
        send_suspect(orders, "suspect")
        both = {seen.get(timeout=world.patience_s) for _ in range(2)}

    assert both == {"slow", "suspect"}


def test_stopping_does_not_wait_for_a_suspect_s_turn(world: World) -> None:
    journal = Journal()
    orders = handled(world.queue(), journal, "sync")
    orders.send("slow")

    with world.broker.worker(orders):
        assert journal.started.wait(world.patience_s)
        send_suspect(orders, "suspect")
        world.wait_until(lambda: orders.inbox().suspects())
        threading.Timer(0.2, journal.go_on.set).start()

    assert world.take_one(orders).payload == "suspect"


def test_whoever_pulls_gets_a_suspect_like_any_other(world: World) -> None:
    orders = world.queue(partitions=1)
    send_suspect(orders, "suspect")
    orders.send("other")

    found = world.take(orders, 2)

    assert {delivery.payload for delivery in found} == {"suspect", "other"}
