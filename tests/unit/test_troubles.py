"""What fails again and again is counted each time and told once in a while."""

from __future__ import annotations

import pytest

from marq.errors import NotConnected
from marq.kafka.cluster.troubles import AGAIN_S, Troubles


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_one_failure_keeps_nothing_else_from_being_done() -> None:
    troubles, done = Troubles(), []

    for number in range(3):
        with troubles.kept_apart(str(number)):
            done.append(10 // (number - 1))

    assert (done, troubles.number) == ([-10, 10], 1)


def test_the_same_failure_is_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    troubles = Troubles(clock)

    for second in range(2 * int(AGAIN_S)):
        clock.now_s = second
        with troubles.kept_apart("counting 'orders'"):
            raise NotConnected("no broker answers")

    assert troubles.number == 2 * AGAIN_S
    told = [(record.__dict__["what"], record.__dict__["error"]) for record in caplog.records]
    assert told == 2 * [("counting 'orders'", "NotConnected: no broker answers")]


def test_another_failure_and_one_after_a_success_are_told_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    troubles = Troubles(Clock())

    for error in (ValueError("a"), TypeError("b"), None, TypeError("b")):
        with troubles.kept_apart("it"):
            if error:
                raise error

    assert len(caplog.records) == 3


def test_an_unforeseen_failure_comes_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    with Troubles().kept_apart("it"):
        raise ZeroDivisionError

    assert "Traceback" in caplog.text
