"""Leases of a worker on Kafka: when they start, what renews them, what is in time."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from marq.core.catalog.definitions import DEFAULTS
from marq.core.markers.marker import Claim, ClaimId, Source
from marq.kafka.leasing.append_time import AppendTime
from marq.kafka.leasing.desk import Desk
from marq.kafka.leasing.handout import Handout, Lease
from marq.kafka.leasing.live import LiveClaim
from marq.kafka.receiving.begin import begin
from marq.kafka.receiving.tickets import Terms, Ticket


class QuietDesk:
    """As much of a desk as a handout needs that nothing is written of."""

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
    live = LiveClaim(claim, [None] * messages, messages, cast(Desk, QuietDesk()))
    live.lapse_ms = 1_000
    return live


def handed_out(live: LiveClaim) -> Handout:
    """All of its messages in someone's hands, kept alive, until 800."""
    handout = Handout(cast(Any, None), live, 1, live.left, 1)
    handout.start(Lease(400, 100, kept_alive=True), lapse_ms=800)
    return handout


def test_a_beat_in_time_renews_what_waits() -> None:
    live = claim_of(3)

    live.beaten(AppendTime.at(900))

    assert live.lapse_ms == 1_400
    assert live.needs_beats


def test_what_waits_is_beaten_no_more_once_a_beat_came_too_late() -> None:
    live = claim_of(3)

    live.beaten(AppendTime.at(1_000))

    assert live.lapse_ms == 1_000
    assert not live.needs_beats


def test_a_beat_in_time_renews_what_was_handed_out() -> None:
    live = claim_of(2)
    handout = handed_out(live)

    handout.beaten(AppendTime.at(799))

    assert handout.lapse_ms == 799 + 300
    assert live.needs_beats


def test_what_was_handed_out_is_beaten_no_more_once_a_beat_came_too_late() -> None:
    live = claim_of(2)
    handout = handed_out(live)

    handout.beaten(AppendTime.at(800))
    handout.beaten(AppendTime.at(801))  # again is harmless

    assert handout.lapse_ms == 0
    assert not live.needs_beats
    assert live.kept == 0
    assert handout not in live.desk.kept


def test_the_last_message_of_a_lost_handout_stops_its_beats_only_once() -> None:
    live = claim_of(1)
    handout = handed_out(live)
    handout.beaten(AppendTime.at(800))

    handout.leave(1)

    assert live.kept == 0


def told(live: LiveClaim, at: AppendTime | None) -> Handout:
    """All of its messages in someone's hands, and the log heard of it then."""
    handout = handed_out(live)
    assert handout.begun_record(0) is not None
    handout.begun_at(at, handout.begun_written)
    return handout


def test_a_lease_counts_from_when_the_log_heard_of_it() -> None:
    handout = told(claim_of(1), AppendTime.at(950))  # long after 800: the log was away

    assert handout.lapse_ms == 950 + 300
    assert handout.judge(AppendTime.at(1_249))
    assert not handout.judge(AppendTime.at(1_250))


def test_a_lease_counts_from_the_earliest_time_the_log_may_have_heard_of_it() -> None:
    handout = told(claim_of(1), AppendTime(700, 950))

    assert handout.lapse_ms == 700 + 300


@pytest.mark.parametrize("at", [None, AppendTime.at(1_000), AppendTime(700, 1_000)])
def test_what_the_log_heard_of_too_late_is_lost(at: AppendTime | None) -> None:
    handout = told(claim_of(1), at)

    assert handout.lapse_ms == 0
    assert not handout.judge(AppendTime.at(1_001))


def test_what_was_lost_stays_so_whatever_is_heard_of_it() -> None:
    handout = told(claim_of(1), None)

    handout.begun_at(AppendTime.at(900), 0)

    assert handout.lapse_ms == 0


def test_until_it_is_known_that_the_log_heard_of_it_the_shorter_lease_counts() -> None:
    handout = handed_out(claim_of(1))
    assert handout.begun_record(0) is not None

    assert handout.judge(AppendTime.at(799))
    assert not handout.judge(AppendTime.at(800))


def test_what_ended_before_the_log_heard_of_it_is_in_time_until_the_claim_lapses() -> None:
    handout = handed_out(claim_of(1))
    assert handout.begun_record(ended=1) is None

    assert handout.judge(AppendTime.at(999))
    assert not handout.judge(AppendTime.at(1_000))


def test_what_may_have_been_taken_too_late_is_not_in_time() -> None:
    handout = told(claim_of(1), AppendTime.at(500))

    assert not handout.judge(AppendTime(700, 800))
    assert not handout.judge(None)


def test_a_message_that_left_its_handout_is_begun_when_that_one_is() -> None:
    handout = handed_out(claim_of(2))
    assert handout.begun_record(0) is not None

    own = handout.split(0, deadline_ms=5_000)
    other = handout.split(1, deadline_ms=5_000)

    assert not own.begun_known
    assert not own.judge(
        AppendTime.at(1_000)
    )  # the claim's lease: the begun may have come too late
    handout.begun_at(AppendTime.at(700), 0)
    assert other.begun_known
    assert other.judge(AppendTime.at(999))
    assert other.judge(AppendTime.at(4_899))
    assert not other.judge(AppendTime.at(4_900))


def test_a_lease_that_was_made_longer_after_its_end_is_lost() -> None:
    handout = handed_out(claim_of(1))
    assert handout.begun_record(0) is not None
    handout.begun_at(AppendTime.at(400), 0)
    own = handout.split(0, deadline_ms=5_000)

    assert own.lapse_ms == 4_900
    assert not own.judge(AppendTime.at(800)), "the log had let it lapse"

    assert own.lapse_ms == 0
    assert not own.kept_alive


def test_a_lease_that_could_not_be_made_longer_ends_when_it_would_have() -> None:
    handout = handed_out(claim_of(1))
    assert handout.begun_record(0) is not None
    handout.begun_at(AppendTime.at(400), 0)
    own = handout.split(0, deadline_ms=5_000)

    assert not own.judge(None)

    assert own.lapse_ms == 800
    assert own.judge(AppendTime.at(799))


def test_a_beat_renews_what_is_to_be_made_longer_only_before_its_end() -> None:
    handout = handed_out(claim_of(1))
    assert handout.begun_record(0) is not None
    handout.begun_at(AppendTime.at(400), 0)
    own = handout.split(0, deadline_ms=5_000)

    own.beaten(AppendTime.at(700))
    assert own.certain_ms == 1_000

    own.beaten(AppendTime.at(1_000))
    assert own.lapse_ms == 0


def test_a_claim_is_let_go_of_when_all_that_is_open_of_it_was_let_lapse() -> None:
    live = claim_of(2)
    handout = Handout(cast(Any, None), live, 1, 1, 1)
    handout.start(Lease(400, 0, kept_alive=False), lapse_ms=800)

    assert not live.has_lapsed(5_000)  # one message still waits
    live.unbegun = 0
    assert not live.has_lapsed(799)
    assert live.has_lapsed(800)


def test_a_claim_with_a_longer_lease_on_one_message_is_kept_as_long() -> None:
    live = claim_of(1)
    handout = Handout(cast(Any, None), live, 1, 1, 1)
    handout.start(Lease(400, 0, kept_alive=False), lapse_ms=800)

    handout.split(0, 9_000)

    assert not live.has_lapsed(8_999)
    assert live.has_lapsed(9_000)


class Place:
    """As much of an inbox as beginning a message needs."""

    queue = "orders"


def test_what_cannot_be_begun_is_let_go_of_and_keeps_no_other() -> None:
    """Whatever it is made of: nobody beats it any more, so that it comes back by itself."""
    live = claim_of(2)
    live.committed()
    home, terms = cast(Any, Place()), Terms(DEFAULTS, 400, True, None, now_ms=10)
    odd, good = (Ticket(0, n, live, n, message) for n, message in enumerate((object(), Plain())))

    assert begin(home, odd, terms) == []
    assert [ticket for _, ticket in begin(home, good, terms)] == [good]

    assert (live.left, live.unbegun) == (1, 0)


class Plain:
    """A message of librdkafka's, with nothing but a payload."""

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return 0

    offset = partition

    def timestamp(self) -> tuple[int, int]:
        return 2, 5

    def value(self) -> bytes:
        return b"x"

    def key(self) -> None: ...

    def headers(self) -> None: ...
