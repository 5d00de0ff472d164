"""Beats of a worker on Kafka: what they renew, and when they must stop."""

from __future__ import annotations

import threading
from typing import Any, cast

from marq.core.marker import Claim, ClaimId, Source
from marq.kafka.lane import Lane
from marq.kafka.live import Handout, LiveClaim


class QuietLane:
    """As much of a lane as a handout needs that nothing is written of."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.kept: set[Handout] = set()
        self.claims: dict[int, LiveClaim] = {}
        self.dirty: list[Handout] = []
        self.clock = self.waiting = None

    def wake(self) -> None: ...

    def beat_within(self, lease_ms: int) -> None: ...


def claim_of(messages: int) -> LiveClaim:
    """A claim whose messages are this process's until 1,000."""
    claim = Claim(ClaimId(1, 1), Source(bytes(16), 0, "orders", "", 0), 0, ((0, messages),), 500)
    live = LiveClaim(claim, [None] * messages, messages, cast(Lane, QuietLane()))
    live.lapse_ms = 1_000
    return live


def handed_out(live: LiveClaim) -> Handout:
    """All of its messages in someone's hands, kept alive, until 800."""
    handout = Handout(cast(Any, None), live, 1, live.left, 1)
    live.unbegun = 0
    handout.start(400, 100, kept_alive=True)
    handout.lapse_ms = 800
    return handout


def test_a_beat_in_time_renews_what_waits() -> None:
    live = claim_of(3)

    live.beaten(900)

    assert live.lapse_ms == 1_400
    assert live.needs_beats


def test_what_waits_is_beaten_no_more_once_a_beat_came_too_late() -> None:
    live = claim_of(3)

    live.beaten(1_000)

    assert live.lapse_ms == 1_000
    assert not live.needs_beats


def test_a_beat_in_time_renews_what_was_handed_out() -> None:
    live = claim_of(2)
    handout = handed_out(live)

    handout.beaten(799)

    assert handout.lapse_ms == 799 + 300
    assert live.needs_beats


def test_what_was_handed_out_is_beaten_no_more_once_a_beat_came_too_late() -> None:
    live = claim_of(2)
    handout = handed_out(live)

    handout.beaten(800)
    handout.beaten(801)  # again is harmless

    assert handout.lapse_ms == 0
    assert not live.needs_beats
    assert live.kept == 0
    assert handout not in live.lane.kept


def test_the_last_message_of_a_lost_handout_stops_its_beats_only_once() -> None:
    live = claim_of(1)
    handout = handed_out(live)
    handout.beaten(800)

    handout.leave(1)

    assert live.kept == 0
