"""`marq queue`, on a memory broker that the commands share with the test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count

import pytest
from typer.testing import CliRunner, Result

import marq
from marq.cli import app

_names = count()


class Shop:
    """A broker of its own and the command line that talks to it."""

    def __init__(self) -> None:
        self.url = f"memory://queues-{next(_names)}"
        self.broker = marq.connect(self.url)

    def queue(self, *words: object, answer: str = "") -> Result:
        arguments = ["queue", *map(str, words), "--url", self.url]
        return CliRunner().invoke(app, arguments, input=answer)


@pytest.fixture
def shop() -> Iterator[Shop]:
    found = Shop()
    yield found
    found.broker.close()


def sentence(result: Result) -> str:
    (line,) = result.stderr.strip().splitlines()
    return str(line)


def test_a_queue_is_created_with_every_option(shop: Shop) -> None:
    result = shop.queue(
        "create", "orders", "--lease", "1m", "--max-attempts", 3, "--backoff", "2s", "90",
        "--no-dead-letter", "--ttl", "1h", "--partitions", 2, "--retention", "7d", "--json",
    )  # fmt: skip

    assert json.loads(result.stdout) == {
        "name": "orders", "lease": "1m", "max_attempts": 3, "backoff": ["2s", "90s"],
        "dead_letter": False, "ttl": "1h", "priorities": 1, "partitions": 2, "lane": False,
        "retention": "7d", "paused": False, "created": True,
    }  # fmt: skip


def test_creating_it_again_changes_nothing_and_other_options_are_refused(shop: Shop) -> None:
    first = shop.queue("create", "orders", "--lease", "1m")
    same = shop.queue("create", "orders", "--lease", "60s")
    other = shop.queue("create", "orders", "--lease", "2m")

    assert (first.stdout, same.stdout) == (
        "queue orders created\n",
        "queue orders was there already\n",
    )
    assert other.exit_code == 2
    assert "lease is '1m', not '2m'" in sentence(other)


@pytest.mark.parametrize("words", [["marq.x"], ["orders", "--lease", "0"], ["a b"]])
def test_what_cannot_be_created_is_refused_in_a_sentence(shop: Shop, words: list[str]) -> None:
    result = shop.queue("create", *words)

    assert result.exit_code == 2
    assert sentence(result).startswith("marq: ")
    assert shop.broker.queues() == []


def test_queues_are_listed(shop: Shop) -> None:
    shop.broker.queue("orders")
    shop.broker.queue("bills", lease="5m").pause()

    shown = shop.queue("ls").stdout
    found = json.loads(shop.queue("ls", "--json").stdout)

    assert "orders" in shown and "bills" in shown
    assert [(queue["name"], queue["lease"], queue["paused"]) for queue in found] == [
        ("bills", "5m", True),
        ("orders", "30s", False),
    ]


def test_a_queue_is_shown_with_its_counts(shop: Shop) -> None:
    orders = shop.broker.queue("orders", partitions=1)
    orders.send_many([b"1", b"2", b"3"])
    orders.receive()

    shown = shop.queue("show", "orders").stdout
    found = json.loads(shop.queue("show", "orders", "--json").stdout)

    assert "handed out, not acked yet" in shown
    assert (found["stats"]["ready"], found["stats"]["in_flight"]) == (2, 1)


@pytest.mark.parametrize("command", ["show", "delete", "purge"])
def test_an_unknown_queue_is_named_with_what_is_close(shop: Shop, command: str) -> None:
    shop.broker.queue("orders")

    result = shop.queue(command, "order")

    assert result.exit_code == 2
    assert "there is no queue 'order': did you mean orders?" in sentence(result)


@pytest.mark.parametrize("command", ["delete", "purge"])
def test_nothing_is_destroyed_unless_someone_says_yes(shop: Shop, command: str) -> None:
    shop.broker.queue("orders").send(b"1")

    result = shop.queue(command, "orders", answer="y\n")

    assert result.exit_code == 2
    assert sentence(result) == "marq: nobody is there to confirm it: say --yes"
    assert shop.broker.queue("orders").stats().ready == 1


def test_a_queue_is_deleted(shop: Shop) -> None:
    shop.broker.queue("orders")

    result = shop.queue("delete", "orders", "--yes")

    assert (result.exit_code, result.stdout) == (0, "queue orders deleted\n")
    assert shop.broker.queues() == []


def test_a_queue_is_purged(shop: Shop) -> None:
    orders = shop.broker.queue("orders")
    orders.send_many([b"1", b"2"])

    result = shop.queue("purge", "orders", "--yes")

    assert (result.exit_code, result.stdout) == (0, "queue orders purged\n")
    assert orders.receive() == []


def test_options_of_a_queue_are_changed_and_the_others_stay(shop: Shop) -> None:
    shop.broker.queue("orders", lease="1m", ttl="1h")

    changed = shop.queue("update", "orders", "--max-attempts", 8, "--backoff", "2s", "90", "--json")
    endless = shop.queue("update", "orders", "--no-ttl")

    found = json.loads(changed.stdout)
    assert (found["max_attempts"], found["backoff"]) == (8, ["2s", "90s"])
    assert (found["lease"], found["ttl"]) == ("1m", "1h")
    assert endless.stdout == "queue orders updated\n"
    assert shop.broker.queue("orders").definition.ttl_ms is None


@pytest.mark.parametrize(
    "words",
    ["orders", "ordres --lease 1m", "orders --lease x", "orders --ttl 1h --no-ttl"],
)
def test_a_change_that_says_nothing_or_nonsense_is_refused(shop: Shop, words: str) -> None:
    shop.broker.queue("orders")

    result = shop.queue("update", *words.split())

    assert result.exit_code == 2
    assert sentence(result).startswith("marq: ")


def test_a_queue_is_paused_and_resumed(shop: Shop) -> None:
    orders = shop.broker.queue("orders")

    assert shop.queue("pause", "orders").stdout == "queue orders paused\n"
    assert orders.definition.paused
    assert shop.queue("resume", "orders").stdout == "queue orders resumed\n"
    assert not orders.definition.paused


def test_who_looks_for_a_queue_in_memory_is_told_that_it_is_gone() -> None:
    result = CliRunner().invoke(app, ["send", "orders", "x", "--url", "memory://"])

    assert result.exit_code == 2
    assert "memory:// is gone with its process" in sentence(result)


def test_where_there_are_no_queues_a_sentence_says_so(shop: Shop) -> None:
    listed, as_json = shop.queue("ls"), shop.queue("ls", "--json")

    assert (listed.exit_code, listed.stdout) == (0, "")
    assert sentence(listed) == "there are no queues: marq queue create NAME makes one"
    assert json.loads(as_json.stdout) == []
