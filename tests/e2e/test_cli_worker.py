"""`marq worker` as real processes: sharing, dying, draining, reloading."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

import marq
from marq import embedded
from marq.cli import processes
from marq.cli.processes import Processes
from marq.core import names
from marq.kafka.backend import Kafka
from marq.kafka.inspecting import counts

PATIENCE_S = 60.0
_names = count()

SHOP = """
import os, pathlib, time
import marq

broker = marq.connect("{url}")
orders = broker.queue("{queue}")

@orders.handler(concurrency=4)
def charge(order: bytes) -> None:
    time.sleep({work_s})
    with open("done", "a") as done:
        done.write(f"{{os.getpid()}} {{order.decode()}}\\n")
"""


def wait_until(true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.05)


class Shop:
    """A directory with an application in it, and `marq worker` started there."""

    def __init__(self, directory: Path, url: str, queue: str) -> None:
        self.directory = directory
        self.url = url
        self.queue = queue
        self._log = directory / "said"
        self._log.touch()

    @property
    def said(self) -> str:
        """What `marq worker` and its children wrote to standard error."""
        return self._log.read_text()

    def write(self, more: str = "", work_s: float = 0.0) -> None:
        code = SHOP.format(url=self.url, queue=self.queue, work_s=work_s)
        (self.directory / "shop.py").write_text(code + more)

    @contextmanager
    def worker(self, *options: str) -> Iterator[subprocess.Popen[str]]:
        command = [sys.executable, "-m", "marq.cli", "worker", "shop:orders", *options]
        with self._log.open("a") as log:
            process = subprocess.Popen(command, cwd=self.directory, stderr=log, text=True)
        try:
            yield process
        finally:
            running = process.poll() is None
            children = psutil.Process(process.pid).children() if running else []
            process.kill()
            process.wait()
            for child in children:
                child.kill()

    def working(self) -> list[int]:
        """The pids of the processes that said that they work, in that order."""
        return [int(pid) for pid in re.findall(r"\(pid (\d+)\) works", self.said)]

    def wait_until_working(self, times: int) -> None:
        wait_until(lambda: len(self.working()) >= times, f"{times} processes work: {self.said}")

    def done(self) -> list[tuple[int, str]]:
        """(pid, payload) of everything handled."""
        file = self.directory / "done"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(int(line.split()[0]), line.split()[1]) for line in lines]

    def wait_until_done(self, times: int) -> None:
        wait_until(lambda: len(self.done()) >= times, f"{times} are handled: {self.said}")


def end(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> int:
    process.send_signal(number)
    return process.wait(PATIENCE_S)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """On a memory broker: each process has its own, good for all that is about processes."""
    return Shop(tmp_path, "memory://", "orders")


@pytest.fixture
def kafka_shop(kafka: embedded.Runtime, tmp_path: Path) -> Shop:
    return Shop(tmp_path, f"kafka://{kafka.bootstrap_servers}", f"cli-worker-{next(_names)}")


def open_messages(broker: marq.Broker, queue: str) -> int:
    assert isinstance(broker.backend, Kafka)
    states = broker.backend.reader.folded(names.MARKERS, broker.backend.markers_partitions)
    claims = counts.look(broker.backend, queue, states).claims
    return sum(claim.open.bit_count() for claim in claims)


# On Kafka.


@pytest.mark.e2e
@pytest.mark.kafka
def test_two_processes_share_the_work_and_sigterm_drains_them(kafka_shop: Shop) -> None:
    kafka_shop.write(work_s=0.05)
    with marq.connect(kafka_shop.url) as broker:
        orders = broker.queue(kafka_shop.queue)
        with kafka_shop.worker("--processes", "2") as process:
            kafka_shop.wait_until_working(2)
            sent = 0
            while len({pid for pid, _ in kafka_shop.done()}) < 2:
                batch = [orders.send_nowait(b"%d" % n, key=str(n)) for n in range(sent, sent + 50)]
                sent += len([receipt.result() for receipt in batch])
                time.sleep(0.2)
                assert sent < 20_000, kafka_shop.said

            assert end(process) == 0

        done = Counter(payload for _, payload in kafka_shop.done())
        assert set(done.values()) == {1}
        assert open_messages(broker, kafka_shop.queue) == 0
        assert orders.stats().ready == sent - len(done)


@pytest.mark.e2e
@pytest.mark.kafka
def test_a_killed_process_is_replaced_and_what_it_had_stays_open(kafka_shop: Shop) -> None:
    kafka_shop.write(work_s=0.02)
    with marq.connect(kafka_shop.url) as broker:
        orders = broker.queue(kafka_shop.queue)
        orders.send_many([b"%d" % n for n in range(1_000)])
        with kafka_shop.worker("--processes", "2") as process:
            kafka_shop.wait_until_working(2)
            kafka_shop.wait_until_done(20)
            victim = kafka_shop.done()[0][0]
            os.kill(victim, signal.SIGKILL)
            kafka_shop.wait_until_working(3)

            assert f"(pid {victim}) was killed by SIGKILL" in kafka_shop.said
            assert end(process) == 0

        acked_or_dying = len(kafka_shop.done())
        left = orders.stats().ready + orders.stats().in_flight
        assert 0 <= acked_or_dying + left - 1_000 <= 4  # it may die between its work and its ack


@pytest.mark.e2e
@pytest.mark.kafka
def test_reload_works_with_the_new_code(kafka_shop: Shop) -> None:
    kafka_shop.write()
    with marq.connect(kafka_shop.url) as broker:
        orders = broker.queue(kafka_shop.queue)
        with kafka_shop.worker("--reload") as process:
            kafka_shop.wait_until_working(1)
            orders.send(b"old")
            kafka_shop.wait_until_done(1)

            kafka_shop.write("\norders.handling = None\n@orders.handler()\n"
                             "def new(order: bytes): charge(b'new-' + order)\n")  # fmt: skip
            kafka_shop.wait_until_working(2)
            orders.send(b"order")
            kafka_shop.wait_until_done(2)

            assert [payload for _, payload in kafka_shop.done()] == ["old", "new-order"]
            assert end(process, signal.SIGINT) == 0


# Processes alone.


@pytest.mark.e2e
def test_broken_code_is_waited_out_with_reload(shop: Shop) -> None:
    shop.write()
    with shop.worker("--reload") as process:
        shop.wait_until_working(1)
        (shop.directory / "shop.py").write_text("def")
        wait_until(lambda: "waiting for a file to change" in shop.said, "it says so")
        shop.write()
        shop.wait_until_working(2)

        assert "SyntaxError" in shop.said
        assert end(process) == 0


@pytest.mark.e2e
def test_a_second_signal_ends_what_does_not_finish(shop: Shop) -> None:
    shop.write(
        "\norders.send(b'1')\norders.handling = None\n@orders.handler()\n"
        "def hang(order: bytes):\n    charge(order)\n    time.sleep(600)\n"
    )
    with shop.worker("--processes", "2") as process:
        shop.wait_until_done(2)
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: "handlers may finish" in shop.said, "it drains")

        assert end(process) == 1


@pytest.mark.e2e
def test_a_second_ctrl_c_ends_a_process_that_works_in_place(shop: Shop) -> None:
    shop.write(
        "\norders.send(b'1')\norders.handling = None\n@orders.handler()\n"
        "def hang(order: bytes):\n    charge(order)\n    import signal\n"
        "    while signal.getsignal(signal.SIGINT) is not signal.default_int_handler:\n"
        "        time.sleep(0.01)\n"
        "    pathlib.Path('heard').touch()\n    time.sleep(600)\n"
    )
    with shop.worker() as process:
        shop.wait_until_done(1)
        process.send_signal(signal.SIGINT)
        wait_until((shop.directory / "heard").exists, "the first one is heard")
        assert process.poll() is None
        process.send_signal(signal.SIGINT)

        assert process.wait(PATIENCE_S) == 130
    assert "Traceback" not in shop.said


@pytest.mark.e2e
def test_children_drain_and_end_when_their_parent_is_killed(shop: Shop) -> None:
    shop.write()
    with shop.worker("--processes", "2") as process:
        shop.wait_until_working(2)
        process.kill()

        wait_until(
            lambda: not any(psutil.pid_exists(pid) for pid in shop.working()), "they are gone"
        )
    wait_until(lambda: shop.said.count("worker stopped") == 2, "they drained")


@pytest.mark.e2e
def test_wrong_use_ends_all_processes_with_2_and_is_said_once(shop: Shop) -> None:
    shop.write("\norders.handling = None\n")
    with shop.worker("--processes", "3") as process:
        assert process.wait(PATIENCE_S) == 2

    assert shop.said.count("has no handler") == 1
    assert re.search(r"worker process 1 \(pid \d+\) ended with 2", shop.said)


@pytest.mark.e2e
def test_processes_that_fail_at_their_start_again_and_again_end_with_1(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "MAX_FAILED_STARTS", 2)
    monkeypatch.chdir(shop.directory)
    (shop.directory / "shop.py").write_text("raise RuntimeError('the database is away')")
    said: list[str] = []

    code = Processes(["shop:orders"], 2, False, said.append).run()

    assert code == 1
    assert "ended with 1: another one starts in 0.5 s" in said[0]
    assert "after 2 failed starts in a row: giving up" in said[1]
