"""The soak: workers start, die, sleep and stop at random while messages are sent; none is lost.

    python -m tests.e2e.kafka_soak --minutes 5 --seed 7

The seed decides what is done to whom, when and in which window; the machine decides the rest.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import marq
from marq import embedded
from tests.e2e.kafka_fixtures import new_name
from tests.e2e.kafka_oracle import Findings, Oracle
from tests.e2e.kafka_process import Crew, eventually
from tests.e2e.kafka_windows import WINDOWS

QUEUES, FLEET = 3, 3
PAUSE_S = (0.3, 2.5)
"""Between two things done to a queue's workers: a group needs seconds to get over a death."""
LOOK_S = 20.0
ONCE = ("during-revoke", "revoked-and-committed", "copied-before-end", "claim-fails")
"""Windows a worker passes once at best."""


class Sender:
    """Sends small batches all the time, and remembers what is durable."""

    def __init__(self, queue: marq.Queue[bytes], chance: random.Random) -> None:
        self._queue = queue
        self._chance = chance
        self._stopping = threading.Event()
        self.sent: set[str] = set()
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        while not self._stopping.wait(self._chance.uniform(0.0, 0.3)):
            batch = [b"x" * self._chance.randrange(200)] * self._chance.randrange(1, 60)
            # Some with a delay: they take the other way through the inbox.
            delay = self._chance.choice([None, None, None, "300ms"])
            done = self._queue.send_many(batch, delay=delay)
            self.sent.update(sent.message_id for sent in done)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


class Field:
    """One queue, who sends to it, and the workers that come and go."""

    def __init__(self, servers: str, broker: marq.Broker, chance: random.Random) -> None:
        self.queue = broker.queue(new_name(), partitions=4)
        self.crew = Crew(servers)
        self.counts: Counter[str] = Counter()
        self.due = 0.0
        self._chance = chance
        self._sender = Sender(self.queue, random.Random(chance.random()))

    def step(self) -> None:
        """Do something to the workers."""
        self.due = time.monotonic() + self._chance.uniform(*PAUSE_S)
        alive = [worker for worker in self.crew.members if worker.running]
        if len(alive) < FLEET:
            self._start()
            return
        victim = self._chance.choice(alive)
        match self._chance.choice(["kill", "stop", "freeze", "thaw", "nothing"]):
            case "kill":
                victim.kill()
                self.counts["killed"] += 1
            case "stop":
                victim.thaw()
                victim.terminate()
                self.counts["told to stop"] += 1
            case "freeze":
                victim.freeze()
                self.counts["frozen"] += 1
            case "thaw":
                victim.thaw()

    def _start(self) -> None:
        chance = self._chance
        window = chance.choice([*WINDOWS, "", ""])
        self.crew.start(
            self.queue.name,
            concurrency=16 if window == "claim-fails" else chance.choice([1, 4, 16]),
            work_s=chance.choice([0.0, 0.0, 0.005, 0.05]),
            drain=chance.choice(["0s", "5s"]),
            window=window,
            nth=1 if window in ONCE else chance.randrange(1, 8),
            delay_s=chance.choice([0.0, chance.uniform(0, 0.005)]),
            batch=1 if window == "claim-fails" else chance.choice([0, 1, 20]),
        )
        self.counts["started"] += 1

    def stop(self) -> None:
        """Send no more, and stop those that still run."""
        self._sender.stop()
        for worker in self.crew.members:
            worker.thaw()
            worker.terminate()
        for worker in self.crew.members:
            worker.wait()
            for line in worker.lines:
                if line.startswith("window "):
                    self.counts[line] += 1

    def check(self, found: Findings, handled: set[str]) -> None:
        """What must be true at the end."""
        assert self._sender.sent <= found.sent
        assert found.acked <= handled, "ended, though nobody handled it"
        durable = {event.address for event in self.crew.heard("acked")}
        assert durable <= found.ended, f"acked and not ended: {sorted(durable - found.ended)[:20]}"

    def close(self) -> None:
        self._sender.stop()
        with self.crew:
            pass


class Soak:
    """One run."""

    def __init__(self, servers: str, seed: int) -> None:
        chance = random.Random(seed)
        self._servers = servers
        self._broker = marq.connect(f"kafka://{servers}")
        self._oracle = Oracle(servers)
        seeds = [chance.random() for _ in range(QUEUES)]
        self._fields = [Field(servers, self._broker, random.Random(each)) for each in seeds]
        self.counts: Counter[str] = Counter()

    def run(self, seconds: float) -> None:
        """Do things for so long, then let everything be drained."""
        until, look_at = time.monotonic() + seconds, time.monotonic() + LOOK_S
        while time.monotonic() < until:
            field = min(self._fields, key=lambda each: each.due)
            time.sleep(max(0.0, min(field.due, until) - time.monotonic()))
            field.step()
            if time.monotonic() > look_at:
                print(f"  {total(self._look())}", flush=True)
                look_at = time.monotonic() + LOOK_S
        for field in self._fields:
            field.stop()
            self.counts += field.counts
        self._drain()

    def _look(self) -> list[Findings]:
        found = [self._oracle.look(field.queue.name) for field in self._fields]
        lost = [message for each in found for message in each.lost]
        assert not lost, f"lost: {sorted(lost)[:20]}"
        return found

    def _drain(self) -> None:
        """Let a healthy worker handle what waits; then nothing but the dead hold anything."""
        names = [field.queue.name for field in self._fields]
        with Crew(self._servers) as crew:
            healthy = crew.start(*names)

            def drained() -> bool:
                holders = set[int]().union(*map(self._oracle.holders, names))
                return not any(each.waiting for each in self._look()) and healthy.id not in holders

            assert eventually(drained, 120), f"not drained: {total(self._look())}"
            healthy.terminate()
            assert healthy.wait() == 0, healthy.errors
            self.found = self._look()
            for field, found in zip(self._fields, self.found, strict=True):
                field.check(found, field.crew.ids("done") | healthy.ids("done"))

    @property
    def kills(self) -> int:
        windows = sum(count for what, count in self.counts.items() if what.startswith("window "))
        return self.counts["killed"] + windows

    def close(self) -> None:
        for field in self._fields:
            field.close()
        self._broker.close()
        self._oracle.close()


def total(found: list[Findings]) -> Findings:
    """All queues as one."""
    whole = Findings()
    for each in found:
        for name in ("sent", "acked", "open", "waiting", "lost"):
            getattr(whole, name).update(getattr(each, name))
    return whole


def soak(servers: str, seed: int, seconds: float) -> tuple[Soak, Findings]:
    """Run it and print what came of it."""
    print(f"soak: seed {seed}, {seconds:.0f} s", flush=True)
    run = Soak(servers, seed)
    try:
        run.run(seconds)
    finally:
        run.close()
    for what, count in sorted(run.counts.items()):
        print(f"  {what}: {count}")
    found = total(run.found)
    print(
        f"kills {run.kills}, messages {len(found.sent)}, acked {len(found.acked)}, "
        f"open {len(found.open)}, lost={len(found.lost)}",
        flush=True,
    )
    return run, found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory() as directory:
        runtime = embedded.start(Path(directory) / "kafka", tracker=False, parent=os.getpid())
        try:
            soak(runtime.bootstrap_servers, given.seed, given.minutes * 60)
        finally:
            runtime.stop()


if __name__ == "__main__":
    main()
