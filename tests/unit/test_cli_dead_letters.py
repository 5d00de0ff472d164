"""`marq dlq`, on a memory broker that the commands share with the test."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import marq
from marq.cli import app, tally

_names = count()


class Shop:
    """A broker of its own with some dead letters, and the command line that talks to it."""

    def __init__(self) -> None:
        self.url = f"memory://dlq-{next(_names)}"
        self.broker = marq.connect(self.url)
        self.orders: marq.Queue[Any] = self.broker.queue("orders", max_attempts=2)

    def bury(self, *payloads: str) -> None:
        for payload in payloads:
            self.orders.send(payload, key="k", headers={"h": "v"}, message_id=f"id-{payload}")
            self.orders.receive()[0].retry(reason="busy").result()
            self.orders.receive()[0].reject(f"no {payload}").result()

    def dlq(self, *words: object, answer: str = "") -> Result:
        arguments = ["dlq", *map(str, words), "--url", self.url]
        return CliRunner().invoke(app, arguments, input=answer)

    def left(self) -> list[str]:
        return [letter.payload for letter in self.orders.dead_letters.list()]

    def waiting(self) -> list[str]:
        return [delivery.payload for delivery in self.orders.receive(max=10)]


@pytest.fixture
def shop() -> Iterator[Shop]:
    found = Shop()
    yield found
    found.broker.close()


def sentence(result: Result) -> str:
    (line,) = result.stderr.strip().splitlines()
    return str(line)


def test_dead_letters_are_listed_oldest_first(shop: Shop) -> None:
    shop.bury("a", "b", "c")

    shown = shop.dlq("ls", "orders")
    as_json = shop.dlq("ls", "orders", "--limit", 2, "--json")

    assert all(text in shown.stdout for text in ("id-a", "id-b", "id-c", "no a"))
    found = [json.loads(line) for line in as_json.stdout.splitlines()]
    assert [(each["message_id"], each["attempts"], each["reason"]) for each in found] == [
        ("id-a", 2, "no a"),
        ("id-b", 2, "no b"),
    ]


def test_a_queue_without_dead_letters_says_so(shop: Shop) -> None:
    result = shop.dlq("ls", "orders")

    assert (result.exit_code, result.stdout) == (0, "")
    assert sentence(result) == "orders has no dead letters"
    assert shop.dlq("ls", "orders", "--json").stdout == ""


def test_one_is_shown_with_all_that_is_known(shop: Shop) -> None:
    shop.bury("a", "b")

    (letter,) = map(json.loads, shop.dlq("show", "orders", "id-b", "--json").stdout.splitlines())

    assert letter["payload"] == "b"
    assert (letter["queue"], letter["key"], letter["headers"]["h"]) == ("orders", "k", "v")
    assert [(past["attempt"], past["reason"]) for past in letter["history"]] == [
        (1, "busy"),
        (2, "no b"),
    ]
    shown = shop.dlq("show", "orders").stdout
    assert all(text in shown for text in ("id-a", "busy", "no a", "history"))


def test_a_letter_that_is_not_there_is_a_failure(shop: Shop) -> None:
    none = shop.dlq("show", "orders")
    shop.bury("a")
    other = shop.dlq("show", "orders", "id-x")

    assert (none.exit_code, sentence(none)) == (1, "marq: orders has no dead letters")
    assert (other.exit_code, sentence(other)) == (1, "marq: orders has no dead letter id-x")


def test_redrive_sends_all_of_them_again(shop: Shop) -> None:
    shop.bury("a", "b")

    result = shop.dlq("redrive", "orders")

    assert (result.exit_code, result.stdout) == (0, "2 dead letters redriven to orders\n")
    assert shop.waiting() == ["a", "b"]
    assert shop.left() == []


def test_redrive_takes_the_oldest_or_those_named(shop: Shop) -> None:
    shop.bury("a", "b", "c")

    assert json.loads(shop.dlq("redrive", "orders", "--limit", 1, "--json").stdout) == {
        "redriven": 1
    }
    assert shop.dlq("redrive", "orders", "id-c").stdout == "1 dead letter redriven to orders\n"

    assert shop.left() == ["b"]
    assert shop.waiting() == ["a", "c"]


def test_an_id_that_is_not_there_is_named_and_the_others_are_redriven(shop: Shop) -> None:
    shop.bury("a", "b")

    result = shop.dlq("redrive", "orders", "id-a", "id-x")

    assert (result.exit_code, sentence(result)) == (
        1,
        "marq: orders has no dead letter id-x; 1 redriven",
    )
    assert shop.left() == ["b"]


def test_redrive_keeps_to_its_rate(shop: Shop) -> None:
    shop.bury("a", "b", "c")
    started = time.monotonic()

    shop.dlq("redrive", "orders", "--rate", 20)

    assert time.monotonic() - started >= 2 / 20


def test_discard_wants_to_be_sure(shop: Shop) -> None:
    shop.bury("a", "b", "c")

    asked = shop.dlq("discard", "orders")
    named = shop.dlq("discard", "orders", "id-b", "--yes")

    assert (asked.exit_code, sentence(asked)) == (
        2,
        "marq: nobody is there to confirm it: say --yes",
    )
    assert named.stdout == "1 dead letter of orders discarded\n"
    assert shop.left() == ["a", "c"]
    assert shop.dlq("discard", "orders", "--limit", 1, "-y", "--json").stdout == (
        '{"discarded": 1}\n'
    )
    assert shop.left() == ["c"]


def test_an_interrupted_redrive_says_how_far_it_came(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.bury("a", "b", "c")
    wanted = tally.Tally.wanted

    def interrupt_at_the_second(each: tally.Tally, letter: marq.DeadLetter) -> bool:
        if letter.payload == "b":
            signal.raise_signal(signal.SIGINT)
        return wanted(each, letter)

    monkeypatch.setattr(tally.Tally, "wanted", interrupt_at_the_second)

    result = shop.dlq("redrive", "orders")

    assert (result.exit_code, sentence(result)) == (
        1,
        "marq: interrupted: 2 redriven; run it again for the rest",
    )
    assert shop.left() == ["c"]


def test_a_long_redrive_tells_how_far_it_is(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "_EVERY_S", 0.0)
    shop.bury("a", "b")

    said = shop.dlq("redrive", "orders", "--rate", 10).stderr.splitlines()

    assert said == ["marq: 1 redriven so far", "marq: 2 redriven so far"]


@pytest.mark.parametrize("command", ["ls", "show", "redrive", "discard"])
def test_a_mistyped_queue_is_a_usage_error(shop: Shop, command: str) -> None:
    result = shop.dlq(command, "order")

    assert result.exit_code == 2
    assert "there is no queue 'order': did you mean orders?" in sentence(result)
    assert shop.broker.queues() == ["orders"]


@pytest.mark.parametrize("rate", ["0", "-1"])
def test_a_wrong_rate_is_a_usage_error(shop: Shop, rate: str) -> None:
    shop.bury("a")

    result = shop.dlq("redrive", "orders", "--rate", rate)

    assert (result.exit_code, shop.left()) == (2, ["a"])


def test_the_dead_letters_of_a_deleted_queue_are_still_shown(shop: Shop) -> None:
    shop.bury("a")
    shop.broker.delete_queue("orders")

    assert "id-a" in shop.dlq("ls", "orders").stdout
    refused = shop.dlq("redrive", "orders")
    assert refused.exit_code == 2
    assert "create it again first" in sentence(refused)
