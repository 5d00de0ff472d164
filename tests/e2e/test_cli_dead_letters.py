"""`marq dlq` as a real process on a real broker."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

import marq
from marq import embedded

pytestmark = [pytest.mark.e2e, pytest.mark.kafka, pytest.mark.java]
PATIENCE_S = 120.0
LETTERS = 12
_names = count()


class Shop:
    """A queue with dead letters, and the command line that works on it."""

    def __init__(self, url: str, directory: Path) -> None:
        self.queue = f"cli-dlq-{next(_names)}"
        self._url = url
        self._directory = directory
        self.broker = marq.connect(url)
        self.orders = self.broker.queue(self.queue)
        # By hand, as any producer may: whoever keeps time writes them the same way.
        for number in range(LETTERS):
            self.orders.dead_letters.send(b"%d" % number, message_id=f"id-{number}")

    def start(self, *words: object) -> subprocess.Popen[str]:
        command, *more = words
        return subprocess.Popen(
            [sys.executable, "-m", "marq.cli", "dlq", str(command), self.queue, *map(str, more),
             "--url", self._url],
            cwd=self._directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, *words: object) -> str:
        with self.start(*words) as process:
            printed, said = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, said) == (0, "")
        return printed

    def left(self) -> list[str]:
        listed = self.run("ls", "--json").splitlines()
        return [json.loads(line)["message_id"] for line in listed]


@pytest.fixture
def shop(kafka: embedded.Runtime, tmp_path: Path) -> Iterator[Shop]:
    found = Shop(f"kafka://{kafka.bootstrap_servers}", tmp_path)
    yield found
    found.broker.close()


def test_dead_letters_are_listed_redriven_and_discarded(shop: Shop) -> None:
    assert sorted(shop.left()) == sorted(f"id-{number}" for number in range(LETTERS))
    assert json.loads(shop.run("show", "id-3", "--json"))["payload"] == "3"

    shop.run("redrive", "id-3", "id-4")
    shop.run("discard", "id-5", "--yes")
    oldest = shop.left()[0]
    shop.run("redrive", "--limit", 1)

    gone = {"id-3", "id-4", "id-5", oldest}
    assert set(shop.left()) == {f"id-{number}" for number in range(LETTERS)} - gone
    found = shop.orders.receive(max=10, wait="10s")
    while len(found) < 3:
        found += shop.orders.receive(max=10, wait="10s")
    assert {(each.message_id, each.attempt) for each in found} == {
        (name, 1) for name in gone - {"id-5"}
    }


def test_an_interrupted_redrive_has_sent_each_once(shop: Shop) -> None:
    with shop.start("redrive", "--rate", 2) as redrive:
        assert shop.orders.receive(wait=PATIENCE_S)[0].ack().result() is None
        redrive.send_signal(signal.SIGINT)
        _, said = redrive.communicate(timeout=PATIENCE_S)
    left = shop.left()

    assert redrive.returncode == 1
    assert f"interrupted: {LETTERS - len(left)} redriven" in said
    assert 0 < len(left) < LETTERS
    shop.run("redrive")
    assert shop.left() == []
    rest = 0
    while rest < LETTERS - 1:
        rest += len(shop.orders.receive(max=LETTERS, wait="10s"))
    assert not shop.orders.receive(max=LETTERS, wait="1s")
