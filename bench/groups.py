"""The benchmark of ordered groups: rates, takeovers, changes of membership, copying.

python -m bench.groups [--quick]
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, pairwise
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from bench.groups_member import Job
from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

import marq
from marq import embedded

PARTITIONS = 8
_names = count()


class Bench:
    """A broker of its own, and groups on it."""

    def __init__(self, servers: str, quick: bool) -> None:
        self.servers = servers
        self.broker = marq.connect(f"kafka://{servers}")
        self.scale = 10 if quick else 1
        self.table = Table("ordered groups", "figure", "against bare")
        self._bare = 0.0

    def group(self, members: int, **options: Any) -> marq.Group:
        queue = self.broker.queue(f"groups{next(_names)}", partitions=4)
        names = [f"m{number}" for number in range(members)]
        wanted = {"max_members": PARTITIONS, "members": names, "router": "spark", **options}
        return self.broker.group(queue.name, "g", **wanted)

    def fill(self, group: marq.Group, messages: int) -> None:
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5})
        for number in range(messages):
            while True:
                try:
                    producer.produce(
                        f"{group.queue}.group.g", b"x" * 100, partition=number % PARTITIONS
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush()

    def start(self, group: marq.Group, member: str, mode: str, messages: int = 0) -> Any:
        job = Job(self.servers, group.queue, member, mode, messages)
        return subprocess.Popen(
            [sys.executable, "-m", "bench.groups_member", msgspec.json.encode(job).decode()],
            stdout=subprocess.PIPE,
            text=True,
        )

    # Rates.

    def rates(self) -> None:
        for mode, messages in (
            ("bare", 400_000),
            ("ack", 400_000),
            ("double", 4_000),
        ):
            for members in (1,) if mode == "bare" else (1, 2, 4):
                self._rate(mode, members, messages // self.scale // 8 * 8)

    def _rate(self, mode: str, members: int, messages: int) -> None:
        group = self.group(members)
        self.fill(group, messages)
        each = messages // members
        running = [self.start(group, f"m{number}", mode, each) for number in range(members)]
        told = [json.loads(it.communicate(timeout=600)[0].splitlines()[-1]) for it in running]
        seconds = max(it["last"] for it in told) - min(it["first"] for it in told)
        rate = messages / seconds
        self._bare = self._bare or rate
        title = {"bare": "bare consume + commit", "ack": "ack", "double": "double_ack each"}[mode]
        self.say(f"{title}, {members} member{'s'[: members > 1]}", f"{rate:,.0f} msg/s", rate)

    def say(self, what: str, figure: str, rate: float = 0.0) -> None:
        against = f"{rate / self._bare:.3f}" if rate else ""
        self.table.add_row(what, figure, against)
        print(f"{what}: {figure} {against}", flush=True)

    # Takeovers.

    def takeovers(self, lease: str) -> None:
        group = self.group(1, lease=lease)
        found: list[float] = []
        with self.load(group):
            pair = [self._sayer(group), self._sayer(group)]
            for _ in range(max(3, 20 // self.scale)):
                active = _first_active(pair)
                time.sleep(0.5)
                found.append(self._takeover(pair, active))
                pair = [it for it in pair if it is not active]
                pair.append(self._sayer(group))
                _wait_until_ready(pair[1])
            for it in pair:
                it.process.kill()
                it.process.wait()
        figure = f"{statistics.median(found):.2f} s median, {max(found):.2f} s longest"
        self.say(f"takeover after a kill, lease {lease}, {len(found)} times", figure)

    def _sayer(self, group: marq.Group) -> Sayer:
        return Sayer(self.start(group, "m0", "say"))

    @staticmethod
    def _takeover(pair: list[Sayer], active: Sayer) -> float:
        other = next(it for it in pair if it is not active)
        killed = time.time()
        active.process.kill()
        active.process.wait()
        _until(lambda: bool(other.times))
        return other.times[0] - killed

    @contextmanager
    def load(self, group: marq.Group, pause_s: float = 0.005) -> Iterator[None]:
        """A message for one partition after the other, all the time."""
        stopping = threading.Event()
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 0})

        def send() -> None:
            for number in count():
                producer.produce(f"{group.queue}.group.g", b"x", partition=number % PARTITIONS)
                producer.poll(0)
                if stopping.wait(pause_s):
                    return

        thread = threading.Thread(target=send)
        thread.start()
        yield
        stopping.set()
        thread.join()
        producer.flush()

    # Changes of membership.

    def change(self) -> None:
        group = self.group(1, allocation="sticky")
        times: dict[int, list[float]] = defaultdict(list)

        def handle(delivery: Any) -> None:
            times[delivery.partition].append(time.time())
            delivery.ack()

        with (
            self.load(group, 0.001),
            group.consume("m0", handle) as first,
            group.consume("m1", lambda delivery: delivery.ack()) as second,
        ):
            _until(lambda: len(times) == PARTITIONS)
            time.sleep(2)
            began = time.time()
            group.add("m1")
            _until(lambda: len(second.partitions) == PARTITIONS // 2)
            ended = time.time()
            time.sleep(2)
            kept = first.partitions
        before = _longest_gap(times, kept, began - 2, began)
        during = _longest_gap(times, kept, began, ended + 0.2)
        figure = f"{during * 1e3:.0f} ms longest gap (before: {before * 1e3:.0f} ms)"
        self.say("partitions that stay, while a member joins", figure)
        self.say("a member joins: all its partitions are there after", f"{ended - began:.2f} s")

    # Copying.

    def copying(self) -> None:
        messages = 200_000 // self.scale
        queue = self.broker.queue(f"groups{next(_names)}", partitions=4)
        for _ in range(messages // 1_000):
            queue.send_many([b"x" * 100] * 1_000, key="k")
        group = self.broker.group(queue.name, "g", max_members=PARTITIONS, members=["m"])
        ends = self.broker.backend.admin.ends  # type: ignore[attr-defined]
        with group.consume("nobody", print):
            _until(lambda: sum(ends(f"{queue.name}.group.g", PARTITIONS)) > 0)
            began, had = time.time(), sum(ends(f"{queue.name}.group.g", PARTITIONS))
            _until(lambda: sum(ends(f"{queue.name}.group.g", PARTITIONS)) >= messages)
            rate = (messages - had) / (time.time() - began)
        self.say("copying from the queue, one process", f"{rate:,.0f} msg/s", rate)


class Sayer:
    """A process that tells of each message."""

    def __init__(self, process: Any) -> None:
        self.process = process
        self.times: list[float] = []
        self.active = self.ready = False
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self.process.stdout:
            told = json.loads(line)
            self.ready |= "ready" in told
            if "at" in told:
                self.times.append(told["at"])
                self.active = True


def _first_active(sayers: list[Sayer]) -> Sayer:
    _until(lambda: any(it.active for it in sayers))
    return next(it for it in sayers if it.active)


def _wait_until_ready(sayer: Sayer) -> None:
    _until(lambda: sayer.ready)


def _until(true: Any) -> None:
    until = time.monotonic() + 120
    while not true():
        if time.monotonic() > until:
            raise TimeoutError("the benchmark waits for something that does not come")
        time.sleep(0.005)


def _longest_gap(
    times: dict[int, list[float]], kept: frozenset[int], start: float, end: float
) -> float:
    longest = 0.0
    for number in kept:
        inside = [start, *(at for at in times[number] if start <= at <= end), end]
        longest = max(longest, *(b - a for a, b in pairwise(inside)))
    return longest


def main(quick: Annotated[bool, typer.Option("--quick")] = False) -> None:
    """Print the figures of ordered groups on a broker of its own."""
    with tempfile.TemporaryDirectory(prefix="marq-bench-groups-") as directory:
        runtime = embedded.start(Path(directory) / "runtime", tracker=False, parent=os.getpid())
        try:
            bench = Bench(runtime.bootstrap_servers, quick)
            bench.rates()
            bench.takeovers("1s")
            bench.takeovers("2s")
            bench.change()
            bench.copying()
            bench.broker.close()
            Console().print(bench.table)
        finally:
            runtime.stop()


if __name__ == "__main__":
    typer.run(main)
