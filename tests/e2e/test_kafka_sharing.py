"""Worker processes that share a queue: they join, leave, sleep and idle, and nobody waits."""

from __future__ import annotations

import time
from typing import Any

import pytest

import marq
from marq.kafka.receiving import pump
from tests.e2e.kafka_fixtures import Connect, NewQueue
from tests.e2e.kafka_oracle import Oracle
from tests.e2e.kafka_process import Crew, eventually

pytestmark = [pytest.mark.java, pytest.mark.kafka, pytest.mark.e2e]


def send(queue: marq.Queue[Any], number: int) -> set[str]:
    return {sent.message_id for sent in queue.send_many([b"x"] * number)}


def test_workers_join_and_leave_and_nothing_is_delivered_twice_or_waits_for_a_lease(
    new_queue: NewQueue, crew: Crew, oracle: Oracle
) -> None:
    queue = new_queue(partitions=6)
    first, second = crew.start(queue.name, work_s=0.02), crew.start(queue.name, work_s=0.02)
    first.wait_for("ready")
    second.wait_for("ready")
    sent = send(queue, 300)
    third = crew.start(queue.name, work_s=0.02)
    for _ in range(20):
        sent |= send(queue, 50)
        time.sleep(0.1)
    third.wait_until(lambda: bool(third.events))
    sent |= send(queue, 300)
    first.terminate()
    assert first.wait() == 0, first.errors
    sent |= send(queue, 100)
    last = time.monotonic()

    assert eventually(lambda: crew.ids("acked") == sent)

    took = time.monotonic() - last
    print(f"{len(sent)} messages, the last acked {took:.1f} s after it was sent")
    begun = [event.message_id for event in crew.heard("begun")]
    assert len(begun) == len(set(begun)), "delivered twice"
    assert all(worker.heard("acked") for worker in crew.members), "someone did nothing"
    assert oracle.look(queue.name).acked == sent


def test_a_worker_told_to_stop_gives_back_at_once_what_it_has_not_begun(
    new_queue: NewQueue, crew: Crew, oracle: Oracle
) -> None:
    queue = new_queue(partitions=2)
    slow = crew.start(queue.name, work_s=0.05, concurrency=2, drain="30s")
    sent = send(queue, 40)
    slow.wait_until(lambda: len(slow.heard("done")) > 20)
    sent |= send(queue, 40)
    quick = crew.start(queue.name)
    quick.wait_for("ready")

    slow.terminate()

    assert slow.wait() == 0, slow.errors
    assert eventually(lambda: crew.ids("acked") == sent)
    begun = [event.message_id for event in crew.heard("begun")]
    assert len(begun) == len(set(begun))
    assert not oracle.look(queue.name).unfinished


def test_a_worker_that_stops_while_a_handler_runs_on_keeps_no_other_message(
    new_queue: NewQueue, crew: Crew
) -> None:
    queue = new_queue(partitions=1)
    queue.send(b"long")
    slow = crew.start(queue.name, work_s=9, concurrency=2)
    slow.wait_until(lambda: len(slow.heard("begun")) == 1)
    send(queue, 20)
    slow.wait_until(lambda: len(slow.heard("begun")) == 2)
    quick = crew.start(queue.name)
    quick.wait_for("ready")

    slow.terminate()
    stopped = time.monotonic()

    quick.wait_until(lambda: len(quick.heard("acked")) == 19)
    took = time.monotonic() - stopped
    print(f"the others were handled {took:.1f} s after the stop")
    assert not slow.heard("done"), "they waited for the handler that runs on"
    assert slow.wait() == 0, slow.errors
    assert len(slow.heard("acked")) == 2


def test_slow_handlers_do_not_hoard_what_an_idle_worker_could_run(
    new_queue: NewQueue, crew: Crew
) -> None:
    queue = new_queue(partitions=4)
    sent = send(queue, 64)
    busy = crew.start(queue.name, work_s=25, concurrency=16, idle_s=5)
    busy.wait_until(lambda: len(busy.heard("begun")) == 16)
    began = time.monotonic()
    idle = crew.start(queue.name, concurrency=16)

    idle.wait_until(lambda: len(idle.heard("acked")) == 48)

    took = time.monotonic() - began
    print(f"the idle worker had the other 48 after {took:.1f} s")
    assert not busy.heard("done"), "they were hoarded"
    assert crew.ids("begun") == sent
    assert len(busy.heard("begun")) == 16


def test_a_process_that_takes_nothing_gives_back_and_leaves(
    connect: Connect, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pump.IDLE_S == 15
    monkeypatch.setattr(pump, "IDLE_S", 5)
    idle, busy = connect(), connect()
    queue = idle.queue("left-idle", partitions=2, lease="3m")
    sent = send(queue, 200)
    taken = queue.receive(50, "20s")
    while len(taken) < 50:
        taken += queue.receive(50 - len(taken), "20s")
    began = time.monotonic()

    other = busy.queue("left-idle")
    seen = {delivery.message_id for delivery in taken}
    while len(seen) < 200 and time.monotonic() < began + 60:
        for delivery in other.receive(200, "1s"):
            assert delivery.message_id not in seen
            seen.add(delivery.message_id)
            delivery.ack()
    took = time.monotonic() - began
    for delivery in taken:
        delivery.ack()
    queue.flush("10s")
    other.flush("10s")

    print(f"the other had everything after {took:.1f} s")
    assert seen == sent
    assert oracle.look("left-idle").acked == sent


def test_a_worker_that_slept_through_its_leases_loses_them_and_hands_out_nothing_stale(
    new_queue: NewQueue, crew: Crew, oracle: Oracle
) -> None:
    queue = new_queue(partitions=2, lease="3s")
    sent = send(queue, 60)
    sleeper = crew.start(queue.name, work_s=1.5, concurrency=4)
    sleeper.wait_until(lambda: len(sleeper.heard("begun")) >= 4)
    sleeper.freeze()
    frozen = time.monotonic()
    claimed = oracle.look(queue.name).open
    other = crew.start(queue.name)
    time.sleep(max(0.0, 13 - (time.monotonic() - frozen)))

    sleeper.thaw()
    thawed = time.monotonic()

    more = send(queue, 40)
    taken_over = eventually(lambda: more <= crew.ids("acked"))
    assert taken_over, (more - crew.ids("acked"), oracle.look(queue.name), sleeper.errors)
    assert other.heard("acked")
    late = [event for event in sleeper.heard("begun") if event.at > thawed]
    assert not {event.message_id for event in late} & claimed, "stale messages were handed out"
    running = {e.message_id for e in sleeper.heard("begun") if e.at < thawed}
    running -= {e.message_id for e in sleeper.heard("acked") if e.at < thawed}
    assert running and eventually(lambda: running <= sleeper.ids("lost"))
    found = oracle.look(queue.name)
    assert not found.lost
    assert found.acked | found.open == sent | more
    assert found.open <= claimed
