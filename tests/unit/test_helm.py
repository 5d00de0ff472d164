"""Who uses a queue's consumer: one thread at a time, takers before the pump's own thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from marq import threads
from marq.kafka.receiving import helm
from marq.kafka.receiving.helm import AWAY_S, Helm

PATIENCE_S = 20.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(helm, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def in_a_thread(call: Callable[[], object]) -> Any:
    found: list[Any] = []
    threads.start(lambda: found.append(call()), "marq-other", found.append).join(PATIENCE_S)
    return found[0]


def test_a_taker_takes_it_in_passing_if_it_is_free() -> None:
    found = Helm()

    assert found.take_in_passing()
    assert not in_a_thread(found.take_in_passing)

    found.done()
    found.leave()
    assert in_a_thread(found.take_in_passing)


def test_the_pump_stays_away_while_takers_come_by(clock: Any) -> None:
    found = Helm()
    found.take_in_passing()
    found.done()
    found.leave()

    assert not found.take(0)

    clock.now += AWAY_S
    assert found.take(0)


def test_a_taker_who_comes_by_in_vain_keeps_the_pump_away_next_time(clock: Any) -> None:
    found = Helm()
    assert in_a_thread(lambda: found.take(0))
    assert not found.take_in_passing()
    found._who = 0

    assert not found.take(0)


def test_whoever_waits_calls_the_pump(clock: Any) -> None:
    found = Helm()
    found.take_in_passing()
    found.done()
    found.leave()

    found.call()

    assert found.take(0)


def test_whoever_is_interrupted_leaves_it_half_done_and_no_taker_goes_on() -> None:
    found = Helm()
    found.take_in_passing()

    found.leave()

    assert found.half_done
    assert not found.take_in_passing()


def test_whoever_is_interrupted_while_he_leaves_leaves_when_he_comes_by_again() -> None:
    found = Helm()
    found.take_in_passing()

    assert not found.take_in_passing()

    assert found.half_done
    found.half_done = False
    assert in_a_thread(found.take_in_passing)


def test_leaving_what_another_has_changes_nothing() -> None:
    found = Helm()
    found.take_in_passing()

    in_a_thread(found.leave)

    assert not in_a_thread(found.take_in_passing)


def test_taking_over_waits_until_whoever_has_it_is_done() -> None:
    found, over = Helm(), threading.Event()
    found.take_in_passing()

    def take_over() -> None:
        found.take_over()
        over.set()

    other = threads.start(take_over, "marq-other", lambda error: None)
    assert not over.is_set()
    found.done()
    found.leave()

    other.join(PATIENCE_S)
    assert over.is_set()
