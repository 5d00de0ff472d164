"""How much a pump fetches ahead."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from marq.kafka.receiving import prefetch
from marq.kafka.receiving.prefetch import BATCH, MOST, Prefetch


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


def fast(clock: Any, rate: int) -> Prefetch:
    ahead = Prefetch()
    clock.now += 1
    ahead.room(Inbox(settled=rate), 0)  # type: ignore[arg-type]
    return ahead


def test_only_a_fast_taker_fetches_for_himself(clock: Any) -> None:
    assert not fast(clock, 100).is_fast
    assert fast(clock, 100_000).is_fast


@pytest.mark.parametrize(("waiting", "fetched"), [(35_000, 0), (30_000, BATCH)])
def test_a_taker_fetches_nothing_in_passing_until_there_is_room_for_a_large_claim(
    clock: Any, waiting: int, fetched: int
) -> None:
    inbox: Any = Inbox(waiting=waiting, settled=100_000)

    assert fast(clock, 100_000).chunk(inbox, 0, waits=False) == fetched


def test_a_taker_who_waits_fetches_what_there_is_room_for(clock: Any) -> None:
    inbox: Any = Inbox(settled=100_000)

    assert fast(clock, 100_000).chunk(inbox, MOST - 10, waits=True) == 10
