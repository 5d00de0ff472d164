"""The tracker and workers that die, hang or are frozen: what they had comes back, once."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.e2e.kafka_process import ROOT
from tests.e2e.tracker_scene import Scene, soak
from tests.tracker_process import TrackerProcess

pytestmark = [
    pytest.mark.java,
    pytest.mark.kafka,
    pytest.mark.e2e,
    pytest.mark.timeout(600),
]
LAG_S = 60
"""What a tracker is never behind on any machine, and would be if it were told in milliseconds."""


def test_the_messages_of_a_killed_worker_are_acked_by_another(scene: Scene) -> None:
    queue = scene.queue(lease="4s")
    sent = scene.send(queue, 200)
    first = scene.crew.start(queue.name, work_s=0.05)
    first.wait_until(lambda: len(first.ids("acked")) >= 10)

    first.kill()
    scene.crew.start(queue.name)

    ledger = scene.settled(queue)
    assert scene.acked() == sent
    assert not ledger.dead
    assert max(ledger.attempts.values()) <= 2


@soak
def test_a_worker_frozen_past_its_lease_has_lost_its_messages(scene: Scene) -> None:
    queue = scene.queue(lease="2s")
    scene.send(queue, 4)
    first = scene.crew.start(queue.name, work_s=3.0)
    first.wait_until(lambda: len(first.ids("begun")) >= 1)

    first.freeze()
    second = scene.crew.start(queue.name)
    second.wait_until(lambda: bool(second.ids("acked") & first.ids("begun")))
    first.thaw()

    first.wait_until(lambda: bool(first.ids("lost")))
    assert not scene.settled(queue).dead
    assert not first.ids("lost") & first.ids("acked")


@soak
def test_a_message_that_kills_its_process_dies_alone(scene: Scene) -> None:
    queue = scene.queue(lease="2s", max_attempts=3, backoff=("100ms", "1s"))
    others = scene.send(queue, 20)
    poison = queue.send(b"exit").message_id
    crew = scene.crew

    def restart() -> None:
        if not crew.members or not crew.members[-1].running:
            crew.start(queue.name, concurrency=4, work_s=0.1)

    ledger = scene.settled(queue, restart)
    assert set(ledger.dead) == {poison}
    assert crew.ids("acked") == others
    assert max(ledger.attempts[name] for name in others) <= 2
    (letter,) = queue.dead_letters.list()
    assert letter.attempts == 3
    assert [past.attempt for past in letter.history] == [1, 2, 3]
    # A first delivery does not wait until the log has taken its begun: it may go uncounted.
    begun = [e.attempt for e in crew.heard("begun") if e.message_id == poison]
    assert begun in ([1, 2, 3], [1, 1, 2, 3])


def test_a_handler_that_raises_or_hangs_ends_as_a_dead_letter(scene: Scene) -> None:
    # A lease that a busy machine does not miss: neither waits for it.
    queue = scene.queue(lease="10s", max_attempts=2, backoff=("100ms", "200ms"))
    raising, hanging = queue.send(b"raise").message_id, queue.send(b"hang").message_id
    fine = scene.send(queue, 5)
    worker = scene.crew.start(queue.name, timeout="1s")

    ledger = scene.settled(queue)

    assert set(ledger.dead) == {raising, hanging}
    assert scene.acked() == fine
    begun = [(e.message_id, e.attempt) for e in worker.heard("begun") if e.message_id not in fine]
    assert sorted(begun) == sorted((name, n) for name in (raising, hanging) for n in (1, 2))
    letters = {letter.message_id: letter for letter in queue.dead_letters.list()}
    assert "as the message wants" in letters[raising].reason
    assert "ran longer than 1s" in letters[hanging].reason
    assert {letter.attempts for letter in letters.values()} == {2}


def test_what_the_tracker_does_is_told_to_prometheus(scene: Scene, tracker: TrackerProcess) -> None:
    queue, before = scene.queue(lease="2s", max_attempts=1), tracker.metrics()
    scene.send(queue, 3)
    parked = queue.send_many([b"x"] * 2, delay="1h")
    scene.leave(queue, 3)

    scene.settled(queue)

    after = tracker.metrics()
    assert after["marq_tracker_messages_total"] >= before["marq_tracker_messages_total"] + 3
    assert after["marq_tracker_late_seconds_count"] >= before["marq_tracker_late_seconds_count"] + 3
    assert after["marq_tracker_batch_seconds_count"] > before["marq_tracker_batch_seconds_count"]
    assert after["marq_tracker_holds"] >= 2
    assert after["marq_tracker_lag_seconds"] < LAG_S
    assert all(queue.cancel(sent) for sent in parked)  # the log is not kept for them


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


@soak
def test_the_messages_of_a_mass_death_come_back_once_each(scene: Scene) -> None:
    queue, number = scene.queue(lease="15s"), 20_000
    sent = {r.result().message_id for r in [queue.send_nowait(b"x" * 100) for _ in range(number)]}
    victim = subprocess.Popen(
        [sys.executable, "-c", ABANDON, f"kafka://{scene.servers}", queue.name, str(number)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert victim.stdout is not None
    assert victim.stdout.readline() == "taken\n"
    victim.kill()
    victim.wait()
    victim.stdout.close()

    scene.crew.start(queue.name, concurrency=16)

    ledger = scene.settled(queue)
    assert scene.acked() == sent
    assert {copies for _, copies in ledger.copies} == {0, 1}
    assert sum(copies == 1 for _, copies in ledger.copies) == number
    assert set(ledger.attempts.values()) == {2}
