"""The demo's second part: a real Kafka, real worker processes, one of them killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psutil  # type: ignore[import-untyped]
from rich.table import Table

import marq
from marq import embedded
from marq.cli.demo_look import Look, look, markers
from marq.cli.demo_stage import say, title
from marq.errors import RuntimeFailed
from marq.kafka.backend import Kafka

MESSAGES = 15_000
PROCESSES = 3
_PATIENCE_S = 45.0
_PACE_S = 0.3


def on_kafka(summary: Table) -> None:
    """Everything in a directory of its own that is gone afterwards."""
    title("On Kafka: a real broker, real worker processes, one of them killed")
    with tempfile.TemporaryDirectory(prefix="marq-demo-") as directory:
        runtime = _started(Path(directory) / "runtime", summary)
        try:
            url = f"kafka://{runtime.bootstrap_servers}"
            with marq.connect(url) as broker, closing(Workers(url, directory)) as workers:
                _show(broker, workers, summary)
        finally:
            runtime.stop()
    say("all stopped; `marq up` starts a Kafka that stays")


def _started(directory: Path, summary: Table) -> embedded.Runtime:
    started = time.monotonic()
    runtime = embedded.start(directory)
    took = f"up in {time.monotonic() - started:.1f} s"
    version = embedded.status(runtime.directory).kafka_version
    say(f"Kafka {version} at {runtime.bootstrap_servers}, {took}")
    summary.add_row(f"Kafka {version}, a child process", took)
    return runtime


class Workers:
    """`marq worker` with several processes, as anyone would start it."""

    def __init__(self, url: str, directory: str) -> None:
        command = ["worker", "marq.cli.demo_orders:orders", "--processes", str(PROCESSES)]
        say(f"$ marq {' '.join(command)}")
        self._working = threading.Semaphore(0)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "marq.cli", *command],
            env={**os.environ, "MARQ_URL": url}, cwd=directory, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        threading.Thread(target=self._repeat, daemon=True).start()

    def _repeat(self) -> None:
        for line in self._process.stderr or ():
            if line.startswith("marq: "):
                say(f"  {line.rstrip()}")
            if line.endswith("works\n"):
                self._working.release()

    def wait_until_working(self) -> None:
        for _ in range(PROCESSES):
            if not self._working.acquire(timeout=_PATIENCE_S):
                raise _stuck()

    def kill_one(self) -> int:
        """End one as the kernel would for want of memory; its pid."""
        victim = psutil.Process(self._process.pid).children()[0]
        victim.send_signal(signal.SIGKILL)
        return int(victim.pid)

    def close(self) -> None:
        """SIGTERM: handlers finish, what is fetched ahead is given back."""
        self._process.terminate()
        self._process.wait(_PATIENCE_S)


def _show(broker: marq.Broker, workers: Workers, summary: Table) -> None:
    orders = broker.queue("orders", lease="30s", partitions=6)
    kafka = broker.backend
    assert isinstance(kafka, Kafka)
    workers.wait_until_working()
    _send(orders, summary)
    watch = Watch(kafka)
    watch.until(lambda: watch.now.acked >= MESSAGES // 10)
    say(f"SIGKILL to pid {workers.kill_one()}: its partitions go to the others after 6 s")
    watch.until(watch.at_rest)
    _sum_up(watch.now, watch.best_rate, markers(kafka), summary)


def _send(orders: marq.Queue[object], summary: Table) -> None:
    started = time.monotonic()
    receipts = [orders.send_nowait(b"order %d" % n, key=str(n)) for n in range(MESSAGES)]
    for receipt in receipts:
        receipt.result()
    rate = MESSAGES / (time.monotonic() - started)
    say(f"{MESSAGES:,} messages sent and durable, {rate:,.0f} a second")
    summary.add_row("messages sent, each durable", f"{MESSAGES:,} at {rate:,.0f}/s")


def _stuck() -> RuntimeFailed:
    return RuntimeFailed("the demo's workers did not get on: is the machine very busy?")


class Watch:
    """Looks at the logs again and again, and says what it sees."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._before = self.now = look(kafka, "orders")
        self._at = time.monotonic()
        self.best_rate = 0.0

    def until(self, enough: Callable[[], bool]) -> None:
        """Look until there is enough to be seen."""
        deadline = time.monotonic() + _PATIENCE_S
        while not enough():
            if time.monotonic() > deadline:
                raise _stuck()
            time.sleep(_PACE_S)
            self._look()

    def _look(self) -> None:
        self._before, before_at = self.now, self._at
        self.now, self._at = look(self._kafka, "orders"), time.monotonic()
        rate = (self.now.acked - self._before.acked) / (self._at - before_at)
        self.best_rate = max(self.best_rate, rate)
        ahead = self.now.open - self.now.begun
        if not self.now.claimed:
            return  # they are still joining
        say(
            f"{self.now.acked:>7,} acked {rate:>6,.0f}/s {self.now.begun:>5,} in handlers "
            f"{ahead:>6,} fetched ahead {self.now.waiting:>7,} waiting"
        )

    def at_rest(self) -> bool:
        """Nothing waits, nothing moves, and what is open is one worker's: the dead one's."""
        moved = self.now.open_of != self._before.open_of
        return not moved and not self.now.waiting and len(self.now.open_of) <= 1


def _sum_up(end: Look, rate: float, records: int, summary: Table) -> None:
    ahead = end.open - end.begun
    say(f"{end.open} messages stayed open, all claimed by one worker, the killed one:")
    say(
        f"  {end.begun} were in its handlers, {ahead} only fetched ahead. They are kept in the log;"
    )
    say("  the tracker, which brings them back after their lease, comes next: not in this demo")
    say(f"{end.acked:,} acked + {end.open} open = {end.acked + end.open:,} of {end.sent:,} sent")
    summary.add_row(
        f"acked one by one by {PROCESSES} processes", f"{end.acked:,}, at best {rate:,.0f}/s"
    )
    summary.add_row(
        "a worker killed with SIGKILL", f"{end.open} of its messages stay open, {end.lost} lost"
    )
    summary.add_row("marker records per message", f"{records / end.sent:.3f}")
