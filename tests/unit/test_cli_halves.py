"""`marq half` and `marq checks`, on a memory broker that the commands share with the test."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import marq
from marq.cli import app

_names = count()


class Shop:
    """A queue with half messages, and the command line that talks to its broker."""

    def __init__(self) -> None:
        self.url = f"memory://half-{next(_names)}"
        self.broker = marq.connect(self.url)
        self.broker.clock.freeze()
        self.orders = self.broker.queue("orders")
        self.group = self.orders.producer_group("shop", check=lambda half_id, payload: "unknown")

    def marq(self, *words: str, answer: str = "") -> Result:
        return CliRunner().invoke(app, [*words, "--url", self.url], input=answer)


@pytest.fixture
def shop() -> Iterator[Shop]:
    found = Shop()
    yield found
    found.broker.close()


def test_open_ones_are_listed_with_group_owner_and_checks(shop: Shop) -> None:
    half = shop.group.half("seven", key="7")
    shop.broker.clock.advance("5s")

    listed = shop.marq("half", "ls", "--json")
    of_others = shop.marq("half", "ls", "letters")

    assert half.id in shop.marq("half", "ls").stdout, "whole, however narrow the terminal"
    found = json.loads(listed.stdout)
    assert (found["id"], found["queue"], found["group"]) == (half.id, "orders", "shop")
    assert (found["age"], found["asked"], found["payload"]) == ("5s", 0, "seven")
    assert ":" in found["owner"]
    assert "no half messages" in of_others.stderr


def test_one_is_shown_for_eyes_and_for_programs(shop: Shop) -> None:
    half = shop.group.half("seven", headers={"region": "eu"})

    for_eyes = shop.marq("half", "show", half.id)
    for_programs = shop.marq("half", "show", half.id, "--json")

    assert "seven" in for_eyes.stdout and "eu" in for_eyes.stdout
    assert json.loads(for_programs.stdout)["headers"]["region"] == "eu"


def test_an_operator_commits_and_rolls_back(shop: Shop) -> None:
    wanted, other = shop.group.half("yes"), shop.group.half("no")

    committed = shop.marq("half", "commit", wanted.id, "--yes")
    rolled_back = shop.marq("half", "rollback", other.id, "--yes", "--json")

    assert committed.stdout == "1 half message committed\n"
    assert json.loads(rolled_back.stdout) == {"rolled_back": 1}
    assert [each.payload for each in shop.orders.receive(10)] == ["yes"]
    assert shop.marq("half", "ls", "--json").stdout == ""


def test_what_is_not_open_is_not_decided(shop: Shop) -> None:
    half = shop.group.half("seven")
    half.rollback().result()

    result = shop.marq("half", "commit", half.id, "--yes")

    assert result.exit_code == 1
    assert "no open half message" in result.stderr


def test_nothing_is_decided_without_a_yes(shop: Shop) -> None:
    half = shop.group.half("seven")

    result = shop.marq("half", "rollback", half.id, answer="n\n")

    assert result.exit_code != 0
    assert half.id in shop.marq("half", "ls", "--json").stdout


APP = """
import marq

broker = marq.connect("memory://")
shop = broker.queue("orders").producer_group("shop", check=lambda half_id, payload: "unknown")
"""


def test_checks_answers_until_it_is_told_to_stop(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    command = [sys.executable, "-m", "marq.cli", "checks", "app:shop"]

    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)

    assert (said, code) == ("marq: answers for app:shop\n", 0)


def test_checks_wants_a_producer_group() -> None:
    result = CliRunner().invoke(app, ["checks", "json:dumps"])

    assert result.exit_code == 2
    assert "names no producer group" in result.stderr
