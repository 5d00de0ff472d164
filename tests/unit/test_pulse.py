"""When a tracker may say that it keeps time."""

from __future__ import annotations

from marq.spark.pulse import LATE_S, Pulse


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def test_time_is_kept_from_the_first_batch_on_while_none_that_is_due_is_missing() -> None:
    clock = Clock()
    pulse = Pulse(clock)
    assert not pulse.beats

    pulse.made()
    assert pulse.beats

    clock.now_s += LATE_S
    assert not pulse.beats

    pulse.made()
    assert pulse.beats


def test_a_rest_is_no_delay() -> None:
    clock = Clock()
    pulse = Pulse(clock)

    pulse.made(rest_s=60)
    clock.now_s += 60 + LATE_S - 1
    assert pulse.beats

    clock.now_s += 1
    assert not pulse.beats


def test_no_time_is_kept_while_no_query_runs() -> None:
    pulse = Pulse(Clock())
    pulse.made()

    pulse.stopped()

    assert not pulse.beats
