"""`marq send`, `receive` and `peek`, on a memory broker that the commands share with the test."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import marq
from marq.cli import app
from marq.cli.receiving import Receiving, Wanted
from marq.errors import ConfigError

_names = count()


class Shop:
    """A broker of its own and the command line that talks to it."""

    def __init__(self) -> None:
        self.url = f"memory://shop-{next(_names)}"
        self.broker = marq.connect(self.url)
        self.orders = self.broker.queue("orders")

    def marq(self, *words: object, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(app, [*map(str, words), "--url", self.url], input=stdin)

    def waiting(self) -> list[bytes]:
        """The payloads that wait, sorted."""
        return sorted(each.value or b"" for each in self.broker.backend.peek("orders", 1_000))


@pytest.fixture
def shop() -> Iterator[Shop]:
    found = Shop()
    yield found
    found.broker.close()


def sentence(result: Result) -> str:
    (line,) = result.stderr.strip().splitlines()
    return str(line)


# Sending.


def test_a_payload_is_sent_as_text_and_its_place_printed(shop: Shop) -> None:
    result = shop.marq("send", "orders", "hello")

    [delivery] = shop.orders.receive()
    assert (result.exit_code, result.stdout) == (0, f"{delivery.message_id}\n")
    assert delivery.payload == "hello"


def test_an_own_id_and_a_delay_are_told_with_the_place(shop: Shop) -> None:
    result = shop.marq("send", "orders", "x", "--message-id", "bill-7", "--delay", "5s")

    assert result.stdout.startswith("bill-7 at orders:")
    assert ", due 20" in result.stdout


def test_a_sent_message_as_json(shop: Shop) -> None:
    result = shop.marq("send", "orders", "x", "--json", "--key", "k")

    found = json.loads(result.stdout)
    assert found.keys() == {"message_id", "topic", "partition", "offset", "due"}
    assert (found["topic"], found["due"]) == ("orders", None)


def test_every_option_reaches_the_message(shop: Shop) -> None:
    shop.broker.clock.freeze()
    result = shop.marq(
        "send", "orders", "x", "--key", "k", "--header", "a=1", "--header", "b=x=y",
        "--delay", 2, "--ttl", "1h", "--message-id", "m",
    )  # fmt: skip

    assert result.exit_code == 0
    shop.broker.clock.advance("1999ms")
    assert shop.orders.receive() == []
    shop.broker.clock.advance("1ms")
    [found] = shop.orders.receive()
    assert (found.key, found.message_id) == (b"k", "m")
    assert (found.headers["a"], found.headers["b"]) == (b"1", b"x=y")


def test_at_takes_a_time_with_and_without_a_zone(shop: Shop) -> None:
    results = [
        shop.marq("send", "orders", "x", "--at", at)
        for at in ("2020-01-31T08:00", "2020-01-31T08:00+01:00")
    ]

    assert [result.exit_code for result in results] == [0, 0]
    assert len(shop.orders.receive(max=10)) == 2


@pytest.mark.parametrize("given", [[], ["-"]])
def test_standard_input_is_one_message_byte_for_byte(shop: Shop, given: list[str]) -> None:
    shop.marq("send", "orders", *given, stdin=b"a\nb\xff\n")

    assert shop.waiting() == [b"a\nb\xff\n"]


def test_with_lines_each_line_is_a_message(shop: Shop) -> None:
    result = shop.marq("send", "orders", "--lines", stdin="1\n2\n\n3")

    assert result.stdout == "4 messages sent to orders\n"
    assert shop.waiting() == [b"", b"1", b"2", b"3"]


def test_lines_as_json_are_told_one_by_one_in_order(shop: Shop) -> None:
    result = shop.marq("send", "orders", "--lines", "--json", "--key", "k", stdin="1\n2\n3\n")

    assert [json.loads(line)["offset"] for line in result.stdout.splitlines()] == [0, 1, 2]


def test_a_json_payload_arrives_as_a_value(shop: Shop) -> None:
    shop.marq("send", "orders", "--json-payload", '{"order": 7, "sum": 1.10}')

    [delivery] = shop.orders.receive()
    assert delivery.payload == {"order": 7, "sum": 1.1}
    assert delivery.raw == b'{"order": 7, "sum": 1.10}'


def test_what_is_not_json_is_refused_before_it_is_sent(shop: Shop) -> None:
    result = shop.marq("send", "orders", "--json-payload", "{order")

    assert result.exit_code == 2
    assert sentence(result).startswith("marq: the payload is not JSON")
    assert shop.waiting() == []


def test_a_bad_line_is_named_and_what_came_before_it_is_told(shop: Shop) -> None:
    result = shop.marq("send", "orders", "--lines", "--json-payload", stdin="1\n2\nnope\n4\n")

    assert result.exit_code == 2
    assert "line 3 is not JSON" in sentence(result)
    assert result.stdout == "2 messages sent to orders\n"
    assert shop.waiting() == [b"1", b"2"]


def test_a_mistyped_queue_is_not_created(shop: Shop) -> None:
    result = shop.marq("send", "oders", "x")

    assert result.exit_code == 2
    assert "did you mean orders?" in sentence(result)
    assert "marq queue create oders" in sentence(result)
    assert shop.broker.queues() == ["orders"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["x", "--header", "a"], "a header is NAME=VALUE, not 'a'"),
        (["x", "--at", "tomorrow"], "at must be a time like"),
        (["x", "--delay", "soon"], "delay must be a duration"),
        (["x", "--delay", "1s", "--at", "2030-01-01"], "give delay or at, not both"),
        (["x", "--lines"], "--lines reads standard input"),
        (["--lines", "--message-id", "m"], "--message-id is one message's"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(shop: Shop, words: list[str], said: str) -> None:
    result = shop.marq("send", "orders", *words, stdin="x\n")

    assert result.exit_code == 2
    assert said in sentence(result)
    assert shop.waiting() == []


# Receiving.


def test_a_received_message_is_printed_and_acked(shop: Shop) -> None:
    shop.orders.send("hello")

    result = shop.marq("receive", "orders")

    assert (result.exit_code, result.stdout) == (0, "hello\n")
    assert shop.orders.stats().in_flight == shop.orders.stats().ready == 0


def test_one_message_is_received_unless_more_are_asked_for(shop: Shop) -> None:
    shop.orders.send_many([b"1", b"2", b"3"])

    first = shop.marq("receive", "orders")
    rest = shop.marq("receive", "orders", "--max", 9, "--wait", "10ms")

    assert len(first.stdout.splitlines()) == 1
    assert sorted((first.stdout + rest.stdout).split()) == ["1", "2", "3"]


def test_received_messages_as_json(shop: Shop) -> None:
    shop.orders.send(b"\xff\x00", key=b"k", headers={"a": "1", "b": b"\xfe"}, message_id="m")

    found = json.loads(shop.marq("receive", "orders", "--json").stdout)

    assert found.pop("sent_at").startswith("20")
    assert found == {
        "message_id": "m",
        "attempt": 1,
        "key": "k",
        "headers": {"a": "1", "b": {"base64": "/g=="}},
        "payload": {"base64": "/wA="},
    }


def test_without_an_ack_messages_go_back_uncounted(shop: Shop) -> None:
    shop.orders.send_many([b"1", b"2"])

    result = shop.marq("receive", "orders", "--no-ack", "--max", 5, "--wait", "10ms")

    assert sorted(result.stdout.split()) == ["1", "2"]
    assert [delivery.attempt for delivery in shop.orders.receive(max=5)] == [1, 1]


def test_nothing_to_receive_is_said_and_no_failure(shop: Shop) -> None:
    result = shop.marq("receive", "orders", "--wait", "10ms")

    assert (result.exit_code, result.stdout) == (0, "")
    assert sentence(result) == "nothing came within 10ms"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--follow", "--no-ack"], "would show the same messages for ever"),
        (["--wait", "soon"], "wait must be a duration"),
        (["--lease", "1ms"], "lease must be at least 100ms"),
    ],
)
def test_wrong_options_of_receive_are_refused(shop: Shop, words: list[str], said: str) -> None:
    result = shop.marq("receive", "orders", *words)

    assert result.exit_code == 2
    assert said in sentence(result)


def wanted(**changes: Any) -> Wanted:
    given: dict[str, Any] = {"limit": 5, "wait": 0, "lease": None, "ack": True, "follow": False}
    return Wanted.of(**{**given, **changes})


def test_what_could_not_be_written_out_goes_back(shop: Shop) -> None:
    shop.orders.send_many([b"1", b"2"])

    def broken(_: object) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        Receiving(shop.orders, wanted(), broken, threading.Event()).run()

    assert [delivery.attempt for delivery in shop.orders.receive(max=5)] == [1, 1]


def test_an_ack_that_comes_too_late_is_counted_and_said(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.orders.send(b"1")
    run = Receiving(
        shop.orders, wanted(limit=1), lambda _: shop.broker.clock.advance("1m"), threading.Event()
    )

    run.run()

    assert (run.count, run.late) == (1, 1)
    assert "the lease on message" in capsys.readouterr().err


def test_following_ends_when_told_to_stop(shop: Shop) -> None:
    shop.orders.send_many([b"1", b"2", b"3"])
    stop, seen = threading.Event(), list[bytes]()

    def show(batch: list[marq.Delivery[Any]]) -> None:
        seen.extend(delivery.raw for delivery in batch)
        if len(seen) == 3:
            stop.set()

    Receiving(shop.orders, wanted(limit=None, follow=True), show, stop).run()

    assert sorted(seen) == [b"1", b"2", b"3"]
    assert shop.orders.stats().in_flight == 0


def test_a_limit_ends_following_too(shop: Shop) -> None:
    shop.orders.send_many([b"1", b"2"])

    result = shop.marq("receive", "orders", "--follow", "--max", 2)

    assert sorted(result.stdout.split()) == ["1", "2"]


def test_without_a_limit_one_is_meant_and_with_follow_no_end() -> None:
    assert wanted(limit=None).limit == 1
    assert wanted(limit=None, follow=True).limit is None
    with pytest.raises(ConfigError):
        wanted(follow=True, ack=False)


# Peeking.


def test_peeking_takes_nothing(shop: Shop) -> None:
    shop.orders.send("hello", key="k")

    result = shop.marq("peek", "orders", "--json")

    found = json.loads(result.stdout)
    assert (found["payload"], found["key"], found["attempt"]) == ("hello", "k", 1)
    assert shop.orders.stats().ready == 1


def test_peeking_shows_a_table_with_at_most_limit_rows(shop: Shop) -> None:
    shop.orders.send_many([b"one", b"two", b"three"], key="k")

    shown = shop.marq("peek", "orders", "--limit", 2).stdout

    assert "one" in shown and "two" in shown and "three" not in shown


def test_nothing_to_peek_at_is_said(shop: Shop) -> None:
    assert sentence(shop.marq("peek", "orders")) == "nothing waits in orders"


def test_an_unknown_url_is_refused(shop: Shop) -> None:
    result = CliRunner().invoke(app, ["peek", "orders", "--url", "http://x"])

    assert result.exit_code == 2
    assert "is no URL of a broker" in sentence(result)
