"""The hold a worker writes when it does not ack."""

from __future__ import annotations

import pytest

from marq.core.catalog.definitions import QueueDefinition
from marq.core.fate import settling
from marq.core.fate.parking import AHEAD_MS
from marq.core.markers.marker import Action, ClaimId

CLAIM = ClaimId(1, 2)
QUEUE = QueueDefinition(max_attempts=3, backoff_ms=(1_000, 4_000))


def test_a_retry_is_emitted_ahead_of_its_time() -> None:
    held = settling.retried(CLAIM, 1, 1, 60_000, "busy", QUEUE)

    assert (held.action, held.after_ms, held.ahead_ms) == (Action.REDELIVER, 60_000, AHEAD_MS)
    assert (held.claim, held.indexes, held.reason) == (CLAIM, 1, "busy")


def test_a_retry_of_more_than_an_hour_is_emitted_at_once_to_be_parked() -> None:
    held = settling.retried(CLAIM, 1, 1, settling.PARK_MS + 1, "", QUEUE)

    assert held.ahead_ms == held.after_ms


def test_the_last_attempt_does_not_wait() -> None:
    assert settling.retried(CLAIM, 1, 2, 60_000, "", QUEUE).after_ms == 60_000
    assert settling.retried(CLAIM, 1, 3, 60_000, "", QUEUE).after_ms == 0


def test_a_reject_always_has_a_reason() -> None:
    assert settling.rejected(CLAIM, 1, "no").reason == "no"
    assert settling.rejected(CLAIM, 1, "").reason == "rejected"
    assert settling.rejected(CLAIM, 1, "").action is Action.BURY


def test_extending_leaves_what_it_is_and_moves_its_deadline() -> None:
    held = settling.extended(CLAIM, 1, 5_000)

    assert (held.action, held.after_ms) == (Action.EXTEND, 5_000)


def test_a_failed_attempt_waits_as_the_queue_says() -> None:
    assert [settling.backoff(n, QUEUE, 0) for n in (1, 2, 3, 4)] == [1_000, 2_000, 4_000, 4_000]


@pytest.mark.parametrize(
    ("lease_ms", "kept_alive", "ahead_ms"),
    [(30_000, True, 3_000), (1_000, True, 500), (30_000, False, 0)],
)
def test_a_kept_alive_lease_is_given_up_ahead_of_its_deadline(
    lease_ms: int, kept_alive: bool, ahead_ms: int
) -> None:
    assert settling.ahead_ms(lease_ms, kept_alive) == ahead_ms


@pytest.mark.parametrize(
    ("after_ms", "attempt", "stays"), [(9_999, 1, True), (10_000, 1, False), (0, 3, False)]
)
def test_a_short_retry_stays_in_its_worker_while_attempts_are_left(
    after_ms: int, attempt: int, stays: bool
) -> None:
    assert settling.stays(after_ms, attempt, QueueDefinition(max_attempts=3)) is stays


def test_a_retry_that_stays_is_its_worker_s_for_a_lease_after_it_is_due() -> None:
    held = settling.kept(CLAIM, 1, 2_000, "busy", QueueDefinition(lease_ms=30_000))

    assert (held.action, held.after_ms, held.reason) == (Action.REDELIVER, 32_000, "busy")
