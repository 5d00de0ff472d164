"""The tracker with real processes: what dies, hangs or is frozen, and comes back once.

The oracle everywhere: every message sent was acked or is a dead letter by its rule, none is in
neither, and no expiry was acted on twice.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import marq
from tests.conftest import Tracked
from tests.e2e import tracker_ledger
from tests.e2e.kafka_fixtures import new_name
from tests.e2e.kafka_process import ROOT, Crew, eventually
from tests.e2e.tracker_ledger import RETENTION, Ledger
from tests.tracker_process import TrackerProcess

pytestmark = [
    pytest.mark.java,
    pytest.mark.kafka,
    pytest.mark.e2e,
    pytest.mark.timeout(600),
    pytest.mark.skipif("OUTAGES" not in os.environ, reason="minutes long: run by make soak"),
]

PATIENCE_S = 240.0


@pytest.fixture
def broker(tracked: Tracked) -> Iterator[marq.Broker]:
    with marq.connect(f"kafka://{tracked.bootstrap_servers}") as found:
        yield found


@pytest.fixture
def crew(tracked: Tracked) -> Iterator[Crew]:
    with Crew(tracked.bootstrap_servers) as found:
        yield found


@pytest.fixture
def new_queue(broker: marq.Broker) -> Callable[..., marq.Queue[Any]]:
    return lambda **options: broker.queue(new_name(), retention=RETENTION, **options)


def send(queue: marq.Queue[Any], number: int, payload: bytes = b"") -> set[str]:
    return {sent.message_id for sent in queue.send_many([payload] * number)}


def settled(broker: marq.Broker, queue: marq.Queue[Any], acked: Callable[[], set[str]]) -> Ledger:
    """The ledger once every message is acked or dead."""

    def done() -> bool:
        ledger = tracker_ledger.read(broker, queue.name)
        return ledger.sent <= acked() | ledger.dead.keys()

    assert eventually(done, PATIENCE_S, every_s=1.0), "some messages are neither acked nor dead"
    return tracker_ledger.read(broker, queue.name)


def test_the_messages_of_a_killed_worker_are_acked_by_another(
    broker: marq.Broker, crew: Crew, new_queue: Callable[..., marq.Queue[Any]]
) -> None:
    queue = new_queue(lease="4s")
    sent = send(queue, 200)
    first = crew.start(queue.name, work_s=0.05)
    first.wait_until(lambda: len(first.ids("acked")) >= 10)

    first.kill()
    crew.start(queue.name)

    ledger = settled(broker, queue, lambda: crew.ids("acked"))
    assert crew.ids("acked") >= sent
    assert not ledger.twice
    assert not ledger.dead
    assert max(ledger.attempts.values()) <= 2


def test_a_worker_frozen_past_its_lease_has_lost_its_messages(
    broker: marq.Broker, crew: Crew, new_queue: Callable[..., marq.Queue[Any]]
) -> None:
    queue = new_queue(lease="2s")
    send(queue, 4)
    first = crew.start(queue.name, work_s=3.0)
    first.wait_until(lambda: len(first.ids("begun")) >= 1)

    first.freeze()
    second = crew.start(queue.name)
    second.wait_until(lambda: bool(second.ids("acked") & first.ids("begun")))
    first.thaw()

    first.wait_until(lambda: bool(first.ids("lost")))
    ledger = settled(broker, queue, lambda: crew.ids("acked"))
    assert not ledger.twice
    assert not first.ids("acked") & second.ids("acked")


def test_a_message_that_kills_its_process_dies_alone(
    broker: marq.Broker, crew: Crew, new_queue: Callable[..., marq.Queue[Any]]
) -> None:
    queue = new_queue(lease="2s", max_attempts=3, backoff=("100ms", "1s"))
    others = send(queue, 20)
    poison = queue.send(b"exit").message_id

    def acked_or_restarted() -> bool:
        if not crew.members or not crew.members[-1].running:
            crew.start(queue.name, concurrency=4, work_s=0.1)
        ledger = tracker_ledger.read(broker, queue.name)
        return poison in ledger.dead and others <= crew.ids("acked")

    assert eventually(acked_or_restarted, PATIENCE_S, every_s=1.0)
    ledger = tracker_ledger.read(broker, queue.name)
    assert set(ledger.dead) == {poison}
    assert not ledger.twice and not ledger.buried_twice
    assert max(ledger.attempts[name] for name in others) <= 2
    (letter,) = queue.dead_letters.list()
    assert letter.attempts == 3
    assert [past.attempt for past in letter.history] == [1, 2, 3]


def test_a_handler_that_raises_or_hangs_ends_as_a_dead_letter(
    broker: marq.Broker, crew: Crew, new_queue: Callable[..., marq.Queue[Any]]
) -> None:
    queue = new_queue(lease="2s", max_attempts=2, backoff=("100ms", "200ms"))
    raising = queue.send(b"raise").message_id
    fine = send(queue, 5)
    crew.start(queue.name)

    ledger = settled(broker, queue, lambda: crew.ids("acked"))

    assert set(ledger.dead) == {raising}
    assert crew.ids("acked") == fine
    (letter,) = queue.dead_letters.list()
    assert "as the message wants" in letter.reason


ABANDON = """
import sys, time, marq
with marq.connect(sys.argv[1]) as broker:
    queue, left = broker.queue(sys.argv[2]), int(sys.argv[3])
    while left:
        left -= len(queue.receive(left, "5s"))
    queue.flush()
    print("taken", flush=True)
    time.sleep(3600)
"""


def test_the_messages_of_a_mass_death_come_back_once_each(
    tracked: Tracked, broker: marq.Broker, crew: Crew, new_queue: Callable[..., marq.Queue[Any]]
) -> None:
    queue, number = new_queue(lease="15s"), 20_000
    sent = {r.result().message_id for r in [queue.send_nowait(b"x" * 100) for _ in range(number)]}
    url = f"kafka://{tracked.bootstrap_servers}"
    victim = subprocess.Popen(
        [sys.executable, "-c", ABANDON, url, queue.name, str(number)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert victim.stdout is not None
    assert victim.stdout.readline() == "taken\n"
    victim.kill()
    victim.wait()
    victim.stdout.close()

    crew.start(queue.name, concurrency=16)

    ledger = settled(broker, queue, lambda: crew.ids("acked"))
    assert crew.ids("acked") == sent
    assert not ledger.twice
    assert {number for _, number in ledger.copies} == {0, 1}
    assert sum(number == 1 for _, number in ledger.copies) == number
    assert set(ledger.attempts.values()) == {2}


def abandon_some(
    queue: marq.Queue[Any], share: float, chance: random.Random, for_s: float
) -> set[str]:
    """Receive and ack, but leave a share of first attempts alone; the ids acked."""
    until = time.monotonic() + for_s
    acked: set[str] = set()
    receipts: list[tuple[str, marq.Receipt[None]]] = []
    while time.monotonic() < until:
        for delivery in queue.receive(50, "500ms"):
            if delivery.attempt > 1 or chance.random() >= share:
                try:
                    receipts.append((delivery.message_id, delivery.ack()))
                except marq.LeaseLost:
                    continue
        for name, receipt in [each for each in receipts if each[1].done()]:
            try:
                receipt.result(0)
                acked.add(name)
            except marq.LeaseLost:
                pass
            receipts.remove((name, receipt))
    return acked


def test_a_tracker_killed_again_and_again_acts_on_each_expiry_once(
    tracked: Tracked, broker: marq.Broker, new_queue: Callable[..., marq.Queue[Any]]
) -> None:
    queue, chance = new_queue(lease="2s", max_attempts=50), random.Random(7)
    sent = send(queue, 600)
    acked: set[str] = set()

    for round_number in range(3):
        acked |= abandon_some(queue, 0.3, chance, chance.uniform(1.0, 4.0))
        tracked.tracker.kill()
        if round_number == 1:  # the state goes too: the log says the same
            subprocess.run(["rm", "-rf", str(tracked.checkpoint)], check=True)
        tracked.tracker.restart().wait_until_ready()
        sent |= send(queue, 200)

    late = time.monotonic() + PATIENCE_S
    while not sent <= acked and time.monotonic() < late:
        acked |= abandon_some(queue, 0.0, chance, 2.0)
    ledger = tracker_ledger.read(broker, queue.name)
    assert ledger.sent == sent
    assert sent <= acked, f"{len(sent - acked)} of {len(sent)} never came back"
    assert not ledger.twice
    assert not ledger.dead


def test_a_second_tracker_takes_over_and_the_first_one_ends(
    tracked: Tracked, broker: marq.Broker, new_queue: Callable[..., marq.Queue[Any]], tmp_path: Any
) -> None:
    first = tracked.tracker

    with TrackerProcess(tracked.bootstrap_servers, tmp_path / "second") as second:
        second.wait_until_ready()
        assert first.wait(60) == 3

        queue = new_queue(lease="2s")
        sent = send(queue, 5)
        assert {d.message_id for d in queue.receive(5, "20s")} <= sent
        again: set[str] = set()

        def came_back() -> bool:
            again.update(d.message_id for d in queue.receive(5, "1s") if d.attempt > 1)
            return again == sent

        assert eventually(came_back, PATIENCE_S)
    first.restart().wait_until_ready()
    assert not tracker_ledger.read(broker, queue.name).twice
