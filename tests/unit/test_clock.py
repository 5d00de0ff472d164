"""The broker's clock as a process knows it."""

from __future__ import annotations

from marq.kafka.client.clock import WINDOW_S, BrokerClock, elapsed_s

START_MS = 1_700_000_000_000


class Local:
    """This machine's clock."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_it_is_never_ahead_of_any_broker_heard_of_lately() -> None:
    local = Local()
    clock = BrokerClock(local)
    clock.sample("ahead", START_MS + 500)
    clock.sample("behind", START_MS)

    local.now_s += 1

    assert clock.known_ms() == START_MS + 1_000


def test_a_place_that_takes_nothing_more_holds_the_clock_back_for_a_minute_at_most() -> None:
    local = Local()
    clock = BrokerClock(local)
    clock.sample("quiet", START_MS)
    for second in range(1, int(WINDOW_S) + 2):  # the broker's clock gains a millisecond a second
        local.now_s += 1
        clock.sample("busy", START_MS + second * 1_001)

    behind_ms = START_MS + second * 1_001 - (clock.known_ms() or 0)

    assert 0 <= behind_ms <= 1


def test_where_nothing_is_heard_any_more_the_last_word_stands() -> None:
    local = Local()
    clock = BrokerClock(local)
    clock.sample("quiet", START_MS)

    local.now_s += 10 * WINDOW_S

    assert clock.known_ms() == START_MS + 10 * WINDOW_S * 1_000


def test_local_time_goes_by() -> None:
    assert 0 < elapsed_s() <= elapsed_s()


def test_nobody_waits_for_the_time_of_a_log_that_may_not_be_written() -> None:
    clock = BrokerClock(Local())

    clock.refused()

    assert (clock.now_ms(), clock.known_ms()) == (0, None)
    clock.sample("allowed again", START_MS)
    assert clock.now_ms() == START_MS
