"""The arguments of looking at dead letters, redriving and discarding them."""

from __future__ import annotations

from typing import Any

import pytest

import marq
from marq.errors import ConfigError


@pytest.fixture
def letters(marq_broker: marq.Broker) -> marq.DeadLetters:
    orders = marq_broker.queue("orders")
    orders.send(b"1")
    orders.receive()[0].reject()
    return orders.dead_letters


WRONG_CHOICE: list[tuple[dict[str, Any], str]] = [
    ({"limit": 0}, "limit must be a whole number from 1 up, not 0"),
    ({"limit": -1}, "limit must be a whole number from 1 up"),
    ({"limit": "all"}, "limit must be a whole number from 1 up"),
    ({"limit": True}, "limit must be a whole number from 1 up"),
    ({"where": "reason = 'x'"}, "where must be a function of a dead letter"),
]


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        *WRONG_CHOICE,
        ({"rate": 0}, "rate must be above 0 messages a second, not 0"),
        ({"rate": -1}, "rate must be above 0"),
        ({"rate": "fast"}, "rate must be above 0"),
        ({"rate": float("nan")}, "rate must be above 0"),
    ],
)
def test_a_wrong_redrive_sends_nothing(
    letters: marq.DeadLetters, given: dict[str, Any], advice: str
) -> None:
    with pytest.raises(ConfigError, match=advice):
        letters.redrive(**given)

    assert len(letters.list()) == 1


@pytest.mark.parametrize("rate", [float("inf"), 10**400, 1e308, 0.5])
def test_any_rate_above_0_is_kept(letters: marq.DeadLetters, rate: float) -> None:
    assert letters.redrive(rate=rate) == 1


@pytest.mark.parametrize(("given", "advice"), WRONG_CHOICE)
def test_a_wrong_discard_removes_nothing(
    letters: marq.DeadLetters, given: dict[str, Any], advice: str
) -> None:
    with pytest.raises(ConfigError, match=advice):
        letters.discard(**given)

    assert len(letters.list()) == 1


@pytest.mark.parametrize("limit", [0, None, 1.5])
def test_a_wrong_list_is_refused(letters: marq.DeadLetters, limit: Any) -> None:
    with pytest.raises(ConfigError, match="limit must be a whole number"):
        letters.list(limit)


def test_an_error_in_where_leaves_the_letter_where_it_is(letters: marq.DeadLetters) -> None:
    def where(letter: marq.DeadLetter) -> bool:
        raise KeyError("typo")

    with pytest.raises(KeyError):
        letters.redrive(where=where)

    assert len(letters.list()) == 1


@pytest.mark.parametrize(
    "change",
    [marq.DeadLetters.pause, marq.DeadLetters.resume, lambda each: each.update(lease="1m")],
)
def test_dead_letters_have_no_options(letters: marq.DeadLetters, change: Any) -> None:
    with pytest.raises(ConfigError, match="dead letters have no options"):
        change(letters)


def test_a_payload_that_does_not_decode_is_shown_as_its_bytes(marq_broker: marq.Broker) -> None:
    orders = marq_broker.queue("orders")
    orders.send(b"{", headers={"content-type": "application/json"})
    orders.receive()[0].reject()

    (letter,) = orders.dead_letters.list()

    assert letter.payload == letter.raw == b"{"
