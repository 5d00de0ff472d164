"""What can be said about a message, checked before it is written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import marq
from marq.core.messages import sending
from marq.core.messages.sending import SendOptions
from marq.errors import ConfigError, PayloadError


def test_a_plain_send_has_nothing_but_its_payload() -> None:
    assert sending.message(b"x") == sending.Message(b"x")


def test_everything_said_is_in_the_message() -> None:
    message = sending.message(
        "x",
        {
            "key": "k",
            "headers": {"a": "text", "b": b"\xff"},
            "delay": "1m",
            "ttl": "1h",
            "message_id": "order 7",
            "priority": 0,
        },
    )

    assert (message.value, message.key, message.message_id) == (b"x", b"k", "order 7")
    assert message.headers == (
        ("content-type", b"text/plain; charset=utf-8"),
        ("a", b"text"),
        ("b", b"\xff"),
    )
    assert (message.delay_ms, message.due_ms, message.ttl_ms) == (60_000, 0, 3_600_000)


def test_a_time_means_the_same_in_every_zone() -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    there = noon.astimezone(timezone(timedelta(hours=5, minutes=30)))

    assert sending.message(b"", {"at": noon}).due_ms == 1_893_499_200_000
    assert sending.message(b"", {"at": there}).due_ms == 1_893_499_200_000


def test_a_part_of_a_millisecond_is_waited_for() -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)

    due = sending.message(b"", {"at": noon + timedelta(microseconds=1)}).due_ms

    assert due == 1_893_499_200_001


@pytest.mark.parametrize("hours", [-14, 0, 14])
def test_the_first_and_the_last_moment_of_every_zone_are_times(hours: int) -> None:
    zone = timezone(timedelta(hours=hours))
    first, last = datetime.min.replace(tzinfo=zone), datetime.max.replace(tzinfo=zone)

    assert sending.message(b"", {"at": first}).due_ms == 1
    assert sending.message(b"", {"at": last}).due_ms > 250_000_000_000_000


def test_options_that_are_none_say_nothing() -> None:
    nothing: SendOptions = {
        "key": None, "headers": None, "delay": None, "at": None, "ttl": None, "message_id": None,
    }  # fmt: skip

    assert sending.message(b"x", nothing) == sending.Message(b"x")


SOON = datetime(2030, 1, 1, tzinfo=UTC)

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"keey": "k"}, "no option 'keey': did you mean 'key'"),
    ({"zzzz": 1}, "no option 'zzzz': see Queue.send"),
    ({"key": 7}, "key must be str or bytes, not int"),
    ({"key": "\ud800"}, "key must be text that has UTF-8"),
    ({"headers": {"a": 1}}, "headers are names with str or bytes, not"),
    ({"headers": {"a": None}}, "headers are names with str or bytes, not"),
    ({"headers": {1: "a"}}, "headers are names with str or bytes, not"),
    ({"headers": ["a"]}, "headers are names with str or bytes, not"),
    ({"headers": "a"}, "headers are names with str or bytes, not"),
    ({"headers": [("a", "b", "c")]}, "headers are names with str or bytes, not"),
    ({"headers": 7}, "headers must be a dict or a list of pairs, not 7"),
    ({"headers": {"marq": "x"}}, "the header 'marq' is marq's own: choose another name"),
    ({"headers": {"\ud800": "x"}}, "a header's name must be text that has UTF-8"),
    ({"headers": {"a": "\ud800"}}, "header 'a' must be text that has UTF-8"),
    ({"delay": "1s", "at": SOON}, "give delay or at, not both"),
    ({"delay": -1}, "delay must be between 0 and 3650d, not -1"),
    ({"delay": "soon"}, "delay must be a duration like"),
    ({"delay": "31d"}, r"may be delayed by 30d at most \(the setting max_delay\), not by 31d"),
    ({"at": datetime(2030, 1, 1)}, "at must be a datetime with a time zone"),
    ({"at": "tomorrow"}, "at must be a datetime with a time zone"),
    ({"at": 1_893_499_200}, "at must be a datetime with a time zone"),
    ({"at": datetime.max.replace(tzinfo=UTC)}, "may be delayed by 30d at most"),
    ({"ttl": 0}, "ttl must be longer than 0"),
    ({"ttl": -1}, "ttl must be between 0 and 3650d"),
    ({"priority": 1}, "the queue has one priority, 0"),
    ({"message_id": ""}, "message_id must be a text of 1 to 256 characters"),
    ({"message_id": "x" * 257}, "message_id must be a text of 1 to 256 characters"),
    ({"message_id": 7}, "message_id must be a text of 1 to 256 characters"),
    ({"message_id": "\ud800"}, "message_id must be text that has UTF-8"),
]


@pytest.mark.parametrize(("said", "advice"), WRONG)
def test_what_is_wrong_is_refused_before_anything_is_written(
    marq_broker: marq.Broker, said: dict[str, Any], advice: str
) -> None:
    orders = marq_broker.queue("orders")

    with pytest.raises(ConfigError, match=advice):
        orders.send(b"", **said)
    with pytest.raises(ConfigError, match=advice):
        orders.send_many([b"", b""], **said)

    stats = orders.stats()
    assert (stats.ready, stats.delayed) == (0, 0)


def test_send_many_sends_nothing_if_one_payload_is_wrong(marq_broker: marq.Broker) -> None:
    orders = marq_broker.queue("orders")

    with pytest.raises(PayloadError):
        orders.send_many([b"1", object(), b"3"])

    assert orders.stats().ready == 0


def test_one_id_is_not_for_many_messages(marq_broker: marq.Broker) -> None:
    orders = marq_broker.queue("orders")

    with pytest.raises(ConfigError, match="message_id is one message's: send them one by one"):
        orders.send_many([b"1", b"2"], message_id="order 7")

    assert orders.stats().ready == 0


def test_the_longest_delay_is_a_setting() -> None:
    with marq.connect("memory://", max_delay="1h") as broker:
        orders = broker.queue("orders")

        orders.send(b"", delay="1h")
        with pytest.raises(ConfigError, match="may be delayed by 1h at most"):
            orders.send(b"", delay="61m")
