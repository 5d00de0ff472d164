"""The demo's second part: a real Kafka, the tracker, real worker processes, one of them killed."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from _thread import interrupt_main
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import marq
from marq import embedded, threads
from marq.cli import demo_kill, demo_rate
from marq.cli.demo_handled import HANDLED, LONG, POISON, LinesSoFar
from marq.cli.demo_stage import Summary, say, title
from marq.cli.demo_workers import PATIENCE_S, PROCESSES, Workers, wait_until
from marq.embedded import tracker
from marq.errors import RuntimeFailed

MESSAGES = 10_000
LONG_ORDERS = 6
DELAY = "12s"
_LINE_EVERY_S = 1.0


def on_kafka(summary: Summary) -> None:
    """Everything in a directory of its own that is gone afterwards."""
    title("On Kafka: a real broker, the tracker on Spark, a worker killed")
    with tempfile.TemporaryDirectory(prefix="marq-demo-") as directory:
        started = time.monotonic()
        # Whatever becomes of the demo, the runtime does not stay.
        runtime = embedded.start(Path(directory) / "runtime", parent=os.getpid())
        try:
            up = f"up in {time.monotonic() - started:.1f} s"
            version = embedded.status(runtime.directory).kafka_version
            say(f"Kafka {version} at {runtime.bootstrap_servers}, {up}; the tracker is starting")
            summary.add_row(f"Kafka {version}, a child process", up)
            _show(runtime, directory, summary)
        finally:
            runtime.stop()
    say("all stopped; `marq up` starts a Kafka and a tracker that stay")


def _show(runtime: embedded.Runtime, directory: str, summary: Summary) -> None:
    url = f"kafka://{runtime.bootstrap_servers}"
    with marq.connect(url) as broker:
        orders: marq.Queue[object] = broker.queue(
            "orders", lease=demo_kill.LEASE, partitions=6, max_attempts=3, backoff=("500ms", "2s")
        )
        with closing(Workers(url, directory)) as workers:
            workers.wait_until_working()
            _wait_for_time(runtime, summary)
            _send(orders, summary)
            killed = demo_kill.one_that_holds(workers, Path(directory), LONG_ORDERS)
            reminder = Reminder(broker)
            poison = orders.send(POISON)
            say(f"sent {poison.message_id}, which no handler can stand")
            watch = Watch(LinesSoFar(Path(directory) / HANDLED))
            watch.until(MESSAGES)
            wait_until(lambda: _open(orders) == 0, "nothing was open")
            _all_handled(watch, summary)
            demo_kill.show(killed, watch.handled, summary)
            _dead_letter(orders, summary)
            reminder.show(summary)
        demo_rate.show(broker, summary)


def _send(orders: marq.Queue[object], summary: Summary) -> None:
    payloads = [LONG + b"%d" % n for n in range(1, LONG_ORDERS + 1)]
    payloads += [b"%d" % n for n in range(MESSAGES - LONG_ORDERS)]
    started = time.monotonic()
    receipts = [orders.send_nowait(each, key=each) for each in payloads]
    for receipt in receipts:
        receipt.result()
    rate = MESSAGES / (time.monotonic() - started)
    say(f"{MESSAGES:,} orders sent and durable, {rate:,.0f} a second. {LONG_ORDERS} of them wait")
    say("  for a bank that does not answer, the others take 5 ms each")
    summary.add_row("orders sent, each durable", f"{MESSAGES:,} at {rate:,.0f}/s")


class Watch:
    """Says how many orders were handled, as it goes on."""

    def __init__(self, handled: LinesSoFar) -> None:
        self.handled = handled
        self._at = time.monotonic()
        self._then = 0

    def until(self, orders: int) -> None:
        """Until this many different orders were handled."""
        wait_until(lambda: self._look() >= orders, f"{orders:,} orders were handled")

    def _look(self) -> int:
        self.handled.look()
        passed, lines = time.monotonic() - self._at, len(self.handled.lines)
        if passed >= _LINE_EVERY_S and lines > self._then:
            missing = MESSAGES - len(self.handled.orders)
            say(f"{lines:>7,} handled {missing:>7,} to go")
            self._at, self._then = time.monotonic(), lines
        return len(self.handled.orders)


def _wait_for_time(runtime: embedded.Runtime, summary: Summary) -> None:
    """Until the tracker has started; else what comes back would come late."""
    if lacks := tracker.missing():
        raise RuntimeFailed(f"the demo needs the tracker: {lacks}")
    directory = runtime.directory
    wait_until(lambda: embedded.status(directory).tracker.keeps_time, "the tracker kept time")
    took = embedded.status(directory).tracker.uptime
    say(f"the tracker keeps time: Spark took {took:.0f} s to start")
    summary.add_row("the tracker, a Spark application", f"kept time after {took:.0f} s")


class Reminder:
    """A delayed message, waited for in a thread of its own so that nothing else delays it."""

    def __init__(self, broker: marq.Broker) -> None:
        self._queue: marq.Queue[object] = broker.queue("reminders", partitions=1)
        self._sent = self._queue.send(b"call back", delay=DELAY)
        self._late = timedelta()
        self._arrived = threading.Event()
        threads.start(self._wait, "marq-demo-reminder", lambda error: interrupt_main())
        say(f"sent {self._sent.message_id} with delay={DELAY!r}")

    def _wait(self) -> None:
        [delivery] = self._queue.receive(wait=PATIENCE_S)
        assert self._sent.due is not None
        self._late = datetime.now(UTC) - self._sent.due
        delivery.ack().result()
        self._arrived.set()

    def show(self, summary: Summary) -> None:
        wait_until(self._arrived.is_set, "the delayed message came")
        late = f"{self._late / timedelta(milliseconds=1):.0f} ms after its time"
        say(f"the message delayed by {DELAY} was handed out {late}")
        summary.add_row(f"a message delayed by {DELAY}", f"handed out {late}")


def _all_handled(watch: Watch, summary: Summary) -> None:
    watch.handled.look()
    lost = MESSAGES - len(watch.handled.orders)
    say(f"{len(watch.handled.orders):,} of {MESSAGES:,} handled, nothing is open")
    if twice := len(watch.handled.lines) - len(watch.handled.orders):
        say(f"{twice} were handled twice: the killed worker's acks of them had not reached the log")
    summary.add_row(
        f"acked one by one by {PROCESSES} processes", f"{len(watch.handled.orders):,}, {lost} lost"
    )


def _open(orders: marq.Queue[object]) -> int:
    stats = orders.stats()
    return stats.ready + stats.in_flight + stats.delayed


def _dead_letter(orders: marq.Queue[object], summary: Summary) -> None:
    wait_until(lambda: bool(orders.dead_letters.list()), "there was a dead letter")
    [letter] = orders.dead_letters.list()
    say(f"dead letter {letter.message_id} ({letter.payload!r}): {letter.reason}")
    for past in letter.history:
        say(f"  attempt {past.attempt} at {past.at:%H:%M:%S.%f} by {past.worker}: {past.reason}")
    summary.add_row("an order no handler can stand", f"dead after {letter.attempts} attempts")
