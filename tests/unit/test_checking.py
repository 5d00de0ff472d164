"""Members of a producer group: what they make of checks that raise, hang or answer nonsense."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import marq
from marq.checking import AT_ONCE, asked_now, checked

WAIT_S = 60.0


@pytest.fixture
def broker() -> Iterator[marq.Broker]:
    with marq.connect("memory://") as found:
        yield found


def wait_until(true: Callable[[], object]) -> None:
    until = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize("said", ["commit", marq.COMMIT])
def test_words_are_answers_too(said: str) -> None:
    assert checked(lambda half_id, payload: said, "id", b"") == (marq.COMMIT, "")


@pytest.mark.parametrize("said", [None, True, "COMMIT", 1, b"commit", "maybe"])
def test_nonsense_is_unknown_and_told(said: Any) -> None:
    verdict, reason = checked(lambda half_id, payload: said, "id", b"")

    assert verdict is marq.UNKNOWN
    assert repr(said) in reason


def test_an_exception_is_unknown_and_told() -> None:
    def check(half_id: str, payload: bytes) -> str:
        raise ValueError("no database")

    assert checked(check, "id", b"") == (marq.UNKNOWN, "the check raised ValueError: no database")


class Odd(Exception):
    """An answer, or an error, that nobody can look at."""

    def refuse(self, *others: object) -> Any:
        raise RuntimeError("do not look")

    __repr__ = __str__ = __eq__ = __bool__ = __hash__ = refuse


@pytest.mark.parametrize("raised", [Odd(), SystemExit(1), asyncio.CancelledError()])
def test_no_kind_of_error_ends_the_hand_that_checks(raised: BaseException) -> None:
    def check(half_id: str, payload: bytes) -> str:
        raise raised

    verdict, reason = checked(check, "id", b"")

    assert verdict is marq.UNKNOWN and type(raised).__name__ in reason


def test_an_answer_that_nobody_can_look_at_is_unknown() -> None:
    verdict, reason = checked(lambda half_id, payload: Odd(), "id", b"")  # type: ignore[arg-type, return-value]

    assert (verdict, reason) == (marq.UNKNOWN, "the check raised RuntimeError: do not look")


def test_one_that_takes_too_long_is_unknown() -> None:
    over = threading.Event()

    def check(half_id: str, payload: bytes) -> str:
        over.wait(WAIT_S)
        return "commit"

    verdict, reason = asked_now(check, "id", b"", timeout_s=0.05)
    over.set()

    assert verdict is marq.UNKNOWN and "longer than 0.05 s" in reason


def test_one_that_hangs_keeps_no_other_from_being_answered(broker: marq.Broker) -> None:
    orders = broker.queue("orders")
    free, hanging = threading.Event(), threading.Event()
    stuck: list[str] = []

    def check(half_id: str, payload: bytes) -> str:
        if payload == b"stuck":
            stuck.append(half_id)
            hanging.set()
            free.wait(WAIT_S)
        return "commit"

    shop = orders.producer_group(
        "shop", check=check, check_after="1s", check_every="1s", check_timeout="100ms",
        timeout="1s",
    )  # fmt: skip
    shop.half(b"stuck")
    broker.clock.advance("5s")
    assert hanging.wait(WAIT_S)
    for _ in range(2 * AT_ONCE):  # asked again and again, it takes no second place
        broker.clock.advance("10s")
    shop.half(b"other")
    broker.clock.advance("5s")

    [delivery] = orders.receive(wait="60s")
    assert delivery.payload == b"other"
    assert len(stuck) == 1
    assert len(broker.backend.halves.seen()) == 1
    wait_until(lambda: broker.backend.halves.seen()[0].answers.unknown)
    free.set()  # what it knows in the end still counts
    assert [late.payload for late in orders.receive(wait="60s")] == [b"stuck"]


def test_sixteen_checks_run_at_once(broker: marq.Broker) -> None:
    orders = broker.queue("orders")
    together = threading.Barrier(AT_ONCE)

    def check(half_id: str, payload: bytes) -> str:
        together.wait(WAIT_S)
        return "commit"

    shop = orders.producer_group("shop", check=check, timeout="1s", check_timeout="1m")
    for _ in range(AT_ONCE):
        shop.half(b"1")
    broker.clock.advance("1m")

    found: list[object] = []
    wait_until(lambda: found.extend(orders.receive(AT_ONCE, wait="1s")) or len(found) == AT_ONCE)  # type: ignore[func-returns-value]
