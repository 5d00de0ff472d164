"""The benchmark of half messages, beside plain sends in the same run.

python -m bench.half [--quick]
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from tests.tracker_process import TrackerProcess

import marq
from marq import embedded

PAYLOAD = b"x" * 100
_names = count()


class HalfBench:
    """A broker of its own, and queues on it."""

    def __init__(self, servers: str, quick: bool) -> None:
        self.servers = servers
        self.broker = marq.connect(f"kafka://{servers}")
        self.times = 3 if quick else 5
        self.scale = 5 if quick else 1
        self.table = Table("half messages", "figure", "against plain sends")

    def group(
        self, queue: marq.Queue[Any], check: Callable[[str, bytes], marq.Check], **options: Any
    ) -> marq.ProducerGroup:
        return queue.producer_group(queue.name, check=check, **options)

    def queue(self) -> marq.Queue[Any]:
        return self.broker.queue(f"half{next(_names)}")

    def say(self, what: str, figure: str, against: str = "") -> None:
        self.table.add_row(what, figure, against)
        print(f"{what}: {figure} {against}", flush=True)

    # Rates.

    def rates(self) -> None:
        queue = self.queue()
        shop = self.group(queue, lambda half_id, payload: marq.UNKNOWN)
        for under_way, messages in ((1, 400), (100, 20_000), (5_000, 50_000)):
            number = messages // self.scale
            plain, halves = [], []
            for _ in range(self.times):  # by turns: the machine is never the same for long
                plain.append(number / _timed(partial(_plain, queue, number, under_way)))
                halves.append(number / _timed(partial(_halves, shop, number, under_way)))
            best_plain, best_half = statistics.median(plain), statistics.median(halves)
            what = "one after the other" if under_way == 1 else f"{under_way:,} under way"
            figure = f"{best_half:,.0f}/s, plain sends {best_plain:,.0f}/s"
            self.say(f"half + commit, {what}", figure, f"{best_half / best_plain:.2f}")

    # A killed owner.

    def killed_owner(self) -> None:
        """From the SIGKILL to the check's answer; less check_after, which nothing can shorten."""
        queue = self.queue()
        asked = threading.Event()

        def check(half_id: str, payload: bytes) -> marq.Check:
            asked.set()
            return marq.COMMIT

        after_s = 2.0
        shop = self.group(queue, check, check_after="2s")
        found: list[float] = []
        for _ in range(self.times):
            asked.clear()
            owner = subprocess.Popen(
                [sys.executable, "-m", "bench.half", "--owner", self.servers, queue.name],
                stdout=subprocess.PIPE,
                text=True,
            )
            assert owner.stdout is not None
            owner.stdout.readline()
            time.sleep(1.0)
            at = time.monotonic()
            os.kill(owner.pid, signal.SIGKILL)
            assert asked.wait(120)
            found.append(time.monotonic() - at)
            owner.wait()
        figure = f"{statistics.median(found):.2f} s, longest {max(found):.2f} s"
        self.say(f"killed owner, check_after {after_s:g} s: until asked", figure)
        shop.close()

    # Others.

    def beside_open_ones(self) -> None:
        """Plain sends with 10,000 open half messages."""
        queue, other = self.queue(), self.queue()
        shop = self.group(other, lambda half_id, payload: marq.UNKNOWN, timeout="1h")
        number = 100_000 // self.scale
        before = [number / _timed(lambda: _plain(queue, number, 5_000)) for _ in range(self.times)]
        receipts = [shop.half_nowait(PAYLOAD) for _ in range(10_000)]
        halves = [receipt.result() for receipt in receipts]
        during = [number / _timed(lambda: _plain(queue, number, 5_000)) for _ in range(self.times)]
        figure = f"{statistics.median(during):,.0f}/s, without {statistics.median(before):,.0f}/s"
        ratio = statistics.median(during) / statistics.median(before)
        self.say("plain sends beside 10,000 open ones", figure, f"{ratio:.2f}")
        for receipt in [half.rollback() for half in halves]:
            receipt.result()

    def close(self) -> None:
        self.broker.close()


def _timed(run: Callable[[], None]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _plain(queue: marq.Queue[Any], number: int, under_way: int) -> None:
    if under_way == 1:
        for _ in range(number):
            queue.send(PAYLOAD)
        return
    for _ in range(number // under_way):
        for receipt in [queue.send_nowait(PAYLOAD) for _ in range(under_way)]:
            receipt.result()


def _halves(shop: marq.ProducerGroup, number: int, under_way: int) -> None:
    if under_way == 1:
        for _ in range(number):
            shop.half(PAYLOAD).commit().result()
        return
    for _ in range(number // under_way):
        halves = [shop.half_nowait(PAYLOAD) for _ in range(under_way)]
        for receipt in [half.result().commit() for half in halves]:
            receipt.result()


def own(servers: str, queue: str) -> None:
    """An owner that is killed: it leaves a half message open."""
    with marq.connect(f"kafka://{servers}") as broker:
        shop = broker.queue(queue).producer_group(
            queue, check=lambda half_id, payload: marq.UNKNOWN, check_after="2s"
        )
        shop.half(PAYLOAD)
        shop.members.close()  # it is not the one that is asked
        print("open", flush=True)
        time.sleep(3_600)


def main(quick: Annotated[bool, typer.Option("--quick")] = False) -> None:
    """Start a broker and a tracker, measure, print the table."""
    with tempfile.TemporaryDirectory(prefix="marq-bench-half") as directory:
        runtime = embedded.start(Path(directory) / "kafka", tracker=False, parent=os.getpid())
        checkpoint = Path(directory) / "checkpoint"
        try:
            with TrackerProcess(runtime.bootstrap_servers, checkpoint) as tracker:
                tracker.wait_until_ready()
                bench = HalfBench(runtime.bootstrap_servers, quick)
                bench.rates()
                bench.beside_open_ones()
                bench.killed_owner()
                bench.close()
        finally:
            runtime.stop()
    Console().print(bench.table)


if __name__ == "__main__":
    own(*sys.argv[2:]) if sys.argv[1:2] == ["--owner"] else typer.run(main)
