"""`marq send`, `receive`, `peek` and `queue` as real processes on a real broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

import marq
from marq import embedded

pytestmark = [pytest.mark.e2e, pytest.mark.kafka]
PATIENCE_S = 60.0
_names = count()


class Shop:
    """A queue, and the command line that works on it."""

    def __init__(self, url: str, directory: Path) -> None:
        self.queue = f"cli-messages-{next(_names)}"
        self._url = url
        self._directory = directory
        self.broker = marq.connect(url)
        self.orders = self.broker.queue(self.queue)

    def command(self, *words: object) -> list[str]:
        return [sys.executable, "-m", "marq.cli", *map(str, words), "--url", self._url]

    def run(self, *words: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            self.command(*words), input=stdin, capture_output=True, cwd=self._directory,
            timeout=PATIENCE_S, check=False,
        )  # fmt: skip


@pytest.fixture
def shop(kafka: embedded.Runtime, tmp_path: Path) -> Iterator[Shop]:
    found = Shop(f"kafka://{kafka.bootstrap_servers}", tmp_path)
    yield found
    found.broker.close()


def test_what_one_process_sends_another_receives_once(shop: Shop) -> None:
    lines = b"".join(b"order %d\n" % number for number in range(2_000))

    sent = shop.run("send", shop.queue, "--lines", stdin=lines)
    first = shop.run("receive", shop.queue, "--max", 1_500)
    rest = shop.run("receive", shop.queue, "--max", 1_500, "--wait", "2s")

    assert sent.stdout == f"2000 messages sent to {shop.queue}\n".encode()
    assert len(first.stdout.splitlines()) == 1_500
    assert sorted(first.stdout.splitlines() + rest.stdout.splitlines()) == sorted(
        lines.splitlines()
    )


def test_a_reader_that_goes_away_costs_no_message(shop: Shop) -> None:
    shop.orders.send_many([b"%d" % number * 1_000 for number in range(10, 99)])
    gone, output = os.pipe()
    os.close(gone)  # as `| head -0` does
    with open(output, "wb") as broken:
        subprocess.run(
            shop.command("receive", shop.queue, "--max", 89), stdout=broken,
            stderr=subprocess.DEVNULL, timeout=PATIENCE_S, check=False,
        )  # fmt: skip

    again = shop.run("receive", shop.queue, "--max", 89, "--json")

    found = [json.loads(line) for line in again.stdout.splitlines()]
    assert len({each["payload"] for each in found}) == 89
    assert {each["attempt"] for each in found} == {1}


def test_following_goes_on_until_interrupted_and_then_has_acked_what_it_printed(
    shop: Shop,
) -> None:
    command = shop.command("receive", shop.queue, "--follow")
    with subprocess.Popen(command, stdout=subprocess.PIPE) as receive:
        assert receive.stdout is not None
        for number in range(3):
            shop.orders.send(b"%d" % number)
            assert receive.stdout.readline() == b"%d\n" % number
        receive.send_signal(signal.SIGINT)
        rest = receive.stdout.read()

    assert (receive.wait(PATIENCE_S), rest) == (0, b"")
    assert shop.orders.stats().ready == shop.orders.stats().in_flight == 0


def test_a_queue_from_its_creation_to_its_end(shop: Shop) -> None:
    name = f"{shop.queue}-own"

    created = shop.run("queue", "create", name, "--lease", "1m", "--partitions", 2, "--json")
    shop.run("send", name, "hello", "--key", "k", "--header", "a=1")
    peeked = shop.run("peek", name, "--json")
    shown = shop.run("queue", "show", name, "--json")
    purged = shop.run("queue", "purge", name, "--yes")
    listed = shop.run("queue", "ls", "--json")
    deleted = shop.run("queue", "delete", name, "--yes")
    gone = shop.run("queue", "show", name)

    assert json.loads(created.stdout)["partitions"] == 2
    assert json.loads(peeked.stdout)["payload"] == "hello"
    assert json.loads(peeked.stdout)["headers"]["a"] == "1"
    assert json.loads(shown.stdout)["stats"]["ready"] == 1
    assert (purged.returncode, deleted.returncode, gone.returncode) == (0, 0, 2)
    assert name in [queue["name"] for queue in json.loads(listed.stdout)]
    assert b"there is no queue" in gone.stderr


def test_a_broker_that_does_not_answer_is_told_in_a_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "marq.cli", "queue", "ls", "--url", "kafka://127.0.0.1:1"],
        env={**os.environ, "MARQ_CONNECT_TIMEOUT": "500ms"},
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip

    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "marq: no broker answers at 127.0.0.1:1: check the address and that Kafka runs"
    ]
