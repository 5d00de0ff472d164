"""How much a pump fetches ahead."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from marq.kafka.receiving import prefetch
from marq.kafka.receiving.prefetch import MOST, Prefetch


class Inbox(SimpleNamespace):
    """What prefetching looks at."""

    wanted = waiting = settled = 0
    starved = missed = False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(prefetch, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def room(inbox: Inbox, ahead: Prefetch) -> int:
    return ahead.room(inbox, 0)  # type: ignore[arg-type]


def test_what_is_asked_for_is_fetched(clock: Any) -> None:
    inbox = Inbox()

    inbox.wanted = 7

    assert room(inbox, Prefetch()) == 7


def test_what_is_done_in_a_second_is_fetched_ahead(clock: Any) -> None:
    inbox = Inbox()
    ahead = Prefetch()

    clock.now += 0.5
    inbox.settled = 500

    assert room(inbox, ahead) == 1_000


def test_twice_as_much_is_fetched_for_someone_who_had_to_wait(clock: Any) -> None:
    inbox = Inbox()
    ahead = Prefetch()

    clock.now += 0.5
    inbox.settled, inbox.starved = 500, True

    assert room(inbox, ahead) == 2_000


def test_slow_handlers_fetch_nothing_ahead_however_many_they_are(clock: Any) -> None:
    inbox = Inbox()
    ahead = Prefetch()

    for _ in range(30):
        clock.now += 0.1  # taken are many, settled is none

        assert room(inbox, ahead) <= 0


def test_no_more_than_so_much_is_fetched_however_fast_it_goes(clock: Any) -> None:
    inbox = Inbox()
    ahead = Prefetch()

    clock.now += 1
    inbox.settled, inbox.waiting = 10_000_000, MOST - 10

    assert room(inbox, ahead) == 10


def test_large_messages_are_bounded_by_their_bytes(clock: Any) -> None:
    inbox = Inbox()
    ahead = Prefetch()
    ahead.polled([b"x" * 10_000_000] * 3)

    clock.now += 1
    inbox.settled = 1_000

    assert room(inbox, ahead) == 2


def test_one_message_is_fetched_for_whoever_went_away_with_nothing(clock: Any) -> None:
    inbox = Inbox()

    inbox.missed = True
    assert room(inbox, Prefetch()) == 1

    inbox.waiting = 1
    assert room(inbox, Prefetch()) == 0
