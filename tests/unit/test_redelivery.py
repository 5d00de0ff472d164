"""What becomes of a message whose time is up."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from marq.core import names
from marq.core.catalog.definitions import QueueDefinition
from marq.core.fate import parking, redelivery
from marq.core.fate.redelivery import Context, Fate
from marq.core.fold.overdue import Due, Overdue
from marq.core.markers.marker import Action, ClaimId, ParkedRef, Source
from marq.core.messages import header
from marq.core.messages.header import Meta, Past
from marq.core.messages.stored import PURGED_AT, Outgoing, Stored, is_void

WORKER = 0xAB
SOURCE = Source(bytes(16), 2, "orders", "", 0)
EVENT = Overdue(
    source=SOURCE,
    offset=7,
    names=((ClaimId(WORKER, 1), 0),),
    action=Action.EXPIRE,
    deadline_ms=20_000,
    ahead_ms=0,
    attempt=1,
    kept_alive=False,
    reason="",
)
USER = (("h", b"v"),)
STORED = Stored("orders", 2, 7, 10_000, b"k", b"payload", USER)
CONTEXT = Context("orders", QueueDefinition(max_attempts=3), clock_ms=20_000, jitter=0)


def event(**changes: Any) -> Overdue:
    return replace(EVENT, **changes)


def stored(**meta: Any) -> Stored:
    return replace(STORED, headers=header.join(Meta(**meta), USER))


def context(**definition: Any) -> Context:
    assert CONTEXT.definition is not None
    return replace(CONTEXT, definition=replace(CONTEXT.definition, **definition))


def meta_of(record: Outgoing | None) -> Meta:
    assert record is not None
    return header.split(record.headers)[0]


def test_an_expired_lease_makes_a_copy_due_at_the_deadline() -> None:
    outcome = redelivery.resolve(EVENT, STORED, CONTEXT)

    assert outcome.fate is Fate.COPIED
    assert outcome.record is not None
    assert (outcome.record.topic, outcome.record.partition) == ("orders", 2)
    assert (outcome.record.key, outcome.record.value) == (b"k", b"payload")
    assert header.split(outcome.record.headers)[1] == USER
    assert meta_of(outcome.record) == Meta(
        attempt=2,
        copies=1,
        expired=1,
        due_ms=20_000,
        origin="orders:2:7",
        sent_ms=10_000,
        history=(Past(1, 20_000, "00000000000000ab", "lease expired"),),
    )


def test_a_message_that_was_only_prefetched_keeps_its_attempt_and_history() -> None:
    outcome = redelivery.resolve(event(attempt=0), stored(attempt=2), CONTEXT)

    copy = meta_of(outcome.record)
    assert (copy.attempt, copy.copies, copy.history) == (2, 1, ())


def test_later_copies_of_expired_leases_back_off() -> None:
    found = stored(attempt=2, copies=1, expired=1)

    first = redelivery.resolve(event(attempt=2), found, CONTEXT)
    spread = redelivery.resolve(event(attempt=2), found, replace(CONTEXT, jitter=1))

    assert meta_of(first.record).due_ms == 21_000
    assert meta_of(first.record).expired == 2
    assert meta_of(spread.record).due_ms == 21_250


def test_what_was_given_back_or_retried_does_not_back_off_when_it_expires_for_the_first_time() -> (
    None
):
    retried = redelivery.resolve(event(action=Action.REDELIVER), stored(copies=3), CONTEXT)

    outcome = redelivery.resolve(event(attempt=2), as_stored(retried.record), CONTEXT)

    assert meta_of(outcome.record).copies == 5
    assert meta_of(outcome.record).due_ms == 20_000


@pytest.mark.parametrize(
    "origin", ["orders:2:zzz", "orders:2:", "orders:2:²", "orders:2:" + "9" * 5_000]
)
def test_a_forged_origin_is_no_place_below_a_purge(origin: str) -> None:
    found = replace(
        STORED, offset=9, headers=((header.NAME, header.encode(Meta(origin=origin[:1_000]))),)
    )

    assert not is_void(found, {"orders:2": 8})


@pytest.mark.parametrize("count", [b"9" * 5_000, b"-1", b"", b"x", "²".encode()])
def test_a_forged_count_of_attempts_is_none(count: bytes) -> None:
    letter = replace(STORED, headers=(("__dlq.errors.delivery.count", count),))

    assert redelivery.attempts_of(letter) == 0


def test_every_copy_keeps_what_a_newer_marq_said() -> None:
    newer = ((22, 7), (13, b"key"))
    found, parked = stored(unknown=newer), stored(unknown=newer, queue="orders")
    due = Due(ParkedRef(40_000, 5), Action.RELEASE, 37_000, 0, "")
    died = redelivery.resolve(event(action=Action.BURY), found, CONTEXT).record

    copies = [
        redelivery.resolve(EVENT, found, CONTEXT).record,
        redelivery.resolve(event(deadline_ms=90_000), found, CONTEXT).record,
        redelivery.release(due, parked, 3, CONTEXT).record,
        redelivery.given_back(found, "orders"),
        died,
        redelivery.redriven(as_stored(died), 1),
    ]

    assert [meta_of(copy).unknown for copy in copies] == [newer] * len(copies)


def test_what_cannot_be_worked_out_is_buried_as_it_is() -> None:
    odd = replace(STORED, headers=((header.NAME, b"\x01\x02"), *USER))

    letter = redelivery.unread(odd, "orders", "cannot be worked out: \ud800" + "x" * 1_000)

    assert (letter.topic, letter.key, letter.value) == ("dlq.orders", b"k", b"payload")
    assert letter.headers[:2] == odd.headers
    assert redelivery.reason_of(as_stored(letter)).startswith("cannot be worked out: ?xxx")
    assert len(redelivery.reason_of(as_stored(letter))) == 300


def test_a_retry_says_itself_when_it_is_due() -> None:
    retry = event(action=Action.REDELIVER, attempt=2, deadline_ms=25_000, reason="busy")

    outcome = redelivery.resolve(retry, stored(attempt=2, copies=1), CONTEXT)

    copy = meta_of(outcome.record)
    assert copy.due_ms == 25_000
    assert [past.reason for past in copy.history] == ["busy"]


def test_a_copy_is_never_due_before_the_message_was() -> None:
    outcome = redelivery.resolve(event(attempt=0), stored(delay_ms=15_000), CONTEXT)

    copy = meta_of(outcome.record)
    assert (copy.due_ms, copy.delay_ms) == (25_000, 0)


def test_a_copy_that_has_long_to_wait_is_parked() -> None:
    retry = event(action=Action.REDELIVER, deadline_ms=20_000 + parking.STRAIGHT_MS + 1)

    outcome = redelivery.resolve(retry, STORED, CONTEXT)

    assert outcome.fate is Fate.PARKED
    assert outcome.record is not None
    assert outcome.record.topic == names.DELAYED
    copy = meta_of(outcome.record)
    assert (copy.queue, copy.ahead_ms) == ("orders", parking.AHEAD_MS)


def test_the_ttl_of_a_copy_counts_from_the_first_record() -> None:
    outcome = redelivery.resolve(EVENT, stored(ttl_ms=60_000), CONTEXT)

    copy = meta_of(outcome.record)
    assert (copy.expires_ms, copy.ttl_ms) == (70_000, 0)


@pytest.mark.parametrize(
    ("changes", "suspect"),
    [
        ({"kept_alive": True}, True),
        ({"kept_alive": False}, False),
        ({"kept_alive": True, "attempt": 0}, False),
        ({"kept_alive": True, "action": Action.REDELIVER}, False),
    ],
)
def test_suspect_is_what_ran_in_a_process_that_went_silent(
    changes: dict[str, Any], suspect: bool
) -> None:
    outcome = redelivery.resolve(event(**changes), STORED, CONTEXT)

    assert meta_of(outcome.record).suspect is suspect


@pytest.mark.parametrize(
    ("reason", "shown"),
    [("", "max attempts (3) reached"), ("boom", "max attempts (3) reached: boom")],
)
def test_the_last_attempt_that_fails_makes_a_dead_letter(reason: str, shown: str) -> None:
    last = event(action=Action.REDELIVER, attempt=3, reason=reason)

    outcome = redelivery.resolve(last, stored(attempt=3, message_id="7"), CONTEXT)

    assert outcome.fate is Fate.BURIED
    letter = as_stored(outcome.record)
    assert (letter.topic, letter.value, letter.key) == ("dlq.orders", b"payload", b"k")
    assert redelivery.reason_of(letter) == shown
    assert redelivery.attempts_of(letter) == 3
    assert letter.message_id() == "7"
    assert [past.attempt for past in letter.meta().history] == [3]


def test_a_dead_letter_tells_where_it_died_in_headers_every_tool_can_read() -> None:
    outcome = redelivery.resolve(event(action=Action.BURY, reason="no"), STORED, CONTEXT)

    assert dict(as_stored(outcome.record).user_headers()) == {
        "h": b"v",
        "__dlq.errors.topic": b"orders",
        "__dlq.errors.partition": b"2",
        "__dlq.errors.offset": b"7",
        "__dlq.errors.group": b"orders",
        "__dlq.errors.delivery.count": b"1",
        "__dlq.errors.message": b"no",
    }


def test_a_queue_without_dead_letters_drops() -> None:
    for each in (event(action=Action.BURY), event(attempt=3)):
        outcome = redelivery.resolve(each, STORED, context(dead_letter=False))

        assert (outcome.fate, outcome.record) == (Fate.DROPPED, None)


def test_what_a_purge_voided_is_dropped() -> None:
    outcome = redelivery.resolve(EVENT, STORED, context(purged={"orders:2": 8}))

    assert (outcome.fate, outcome.record) == (Fate.DROPPED, None)


def test_a_message_of_a_deleted_queue_is_buried() -> None:
    outcome = redelivery.resolve(EVENT, STORED, replace(CONTEXT, definition=None))

    assert redelivery.reason_of(as_stored(outcome.record)) == "the queue was deleted"


def test_a_payload_that_is_gone_leaves_a_dead_letter_that_says_so() -> None:
    letter = as_stored(redelivery.gone(EVENT, CONTEXT).record)

    assert "the payload is gone" in redelivery.reason_of(letter)
    assert letter.message_id() == "orders:2:7"


def test_given_back_after_retries_tells_what_became_of_them() -> None:
    past = (Past(1, 1_000, "w", "busy"), Past(2, 2_000, "w", "busy still"))

    copy = redelivery.given_back(stored(), "orders", 3, past=past)

    assert (meta_of(copy).history, meta_of(copy).attempt) == (past, 3)


def test_given_back_counts_nothing() -> None:
    copy = redelivery.given_back(stored(attempt=2, copies=1, delay_ms=5_000), "orders")

    found = header.split(copy.headers)[0]
    assert (found.attempt, found.copies, found.due_ms) == (2, 2, 15_000)
    assert (copy.topic, copy.partition) == ("orders", 2)


def test_a_parked_message_whose_time_has_come_goes_to_its_queue() -> None:
    parked = Stored(
        names.DELAYED, 0, 5, 10_000, b"k", b"payload",
        header.join(Meta(queue="orders", delay_ms=30_000, ttl_ms=90_000, ahead_ms=3_000), USER),
    )  # fmt: skip
    due = Due(ParkedRef(40_000, 5), Action.RELEASE, 37_000, 0, "")

    outcome = redelivery.release(due, parked, 3, CONTEXT)

    assert outcome.record is not None
    assert (outcome.record.topic, outcome.record.partition) == ("orders", 3)
    assert meta_of(outcome.record) == Meta(
        due_ms=40_000, expires_ms=100_000, origin="marq.delayed:0:5", sent_ms=10_000
    )


@pytest.mark.parametrize(
    ("definition", "fate"),
    [(None, Fate.BURIED), (QueueDefinition(purged={"marq.delayed:0": 6}), Fate.DROPPED)],
)
def test_a_parked_message_nobody_wants_any_more_is_not_released(
    definition: QueueDefinition | None, fate: Fate
) -> None:
    parked = replace(stored(queue="orders", delay_ms=30_000), topic=names.DELAYED, partition=0)
    due = Due(ParkedRef(40_000, 5), Action.RELEASE, 37_000, 0, "")

    outcome = redelivery.release(
        due, replace(parked, offset=5), 3, replace(CONTEXT, definition=definition)
    )

    assert outcome.fate is fate


def test_redriven_is_a_message_sent_anew_that_keeps_its_id_and_history() -> None:
    died = redelivery.resolve(event(action=Action.BURY, reason="no"), STORED, CONTEXT)

    again = redelivery.redriven(as_stored(died.record), 1)

    assert (again.topic, again.partition, again.value) == ("orders", 1, b"payload")
    found, user = header.split(again.headers)
    assert user == USER
    assert found == Meta(
        message_id="orders:2:7",
        copies=1,
        history=(Past(1, 20_000, "00000000000000ab", "no"),),
    )


def test_what_died_before_any_reader_had_it_is_redriven_for_all_of_them() -> None:
    parked = replace(stored(queue="orders", delay_ms=30_000), topic=names.DELAYED, partition=0)
    retried = replace(stored(queue="orders", copies=2), topic=names.DELAYED, partition=0)
    deleted = replace(CONTEXT, definition=None)
    due = Due(ParkedRef(40_000, 5), Action.RELEASE, 37_000, 0, "")

    unread = as_stored(redelivery.release(due, parked, 3, deleted).record)
    read = as_stored(redelivery.release(due, retried, 3, deleted).record)

    assert redelivery.reader_of(unread) == redelivery.NOBODY
    assert meta_of(redelivery.redriven(unread, 1)).copies == 0
    assert redelivery.reader_of(read) == "orders"
    assert meta_of(redelivery.redriven(read, 1)).copies == 1


def test_a_letter_names_the_group_it_died_in_and_belongs_to_the_queue_of_its_topic() -> None:
    died = redelivery.buried(STORED, CONTEXT, "no", reader="orders.group.g")
    forged = header.join(Meta(queue="bills"), (("__dlq.errors.group", b"bills.group.g"),))
    letter = Stored("dlq.orders", 0, 0, 0, None, b"", forged)

    assert redelivery.reader_of(as_stored(died.record)) == "orders.group.g"
    assert (redelivery.home_of(letter), redelivery.reader_of(letter)) == ("orders", "orders")
    assert redelivery.redriven(letter, 1).topic == "orders"


def test_a_plain_record_among_dead_letters_belongs_to_their_queue() -> None:
    plain = Stored("dlq.orders", 0, 0, 0, None, b"", ())

    assert redelivery.home_of(plain) == "orders"
    assert (redelivery.reason_of(plain), redelivery.attempts_of(plain)) == ("", 0)


@pytest.mark.parametrize(
    ("record", "void"),
    [
        (STORED, True),
        (replace(STORED, offset=8), False),
        (replace(STORED, partition=1), False),
        (replace(stored(origin="orders:2:3"), offset=90), True),
        (replace(stored(origin="orders:2:8"), offset=90), False),
        (replace(stored(origin="older:0:1"), topic=names.DELAYED, partition=0, offset=4), True),
        (replace(stored(origin="older:0:1"), topic=names.DELAYED, partition=0, offset=5), False),
    ],
)
def test_a_purge_voids_records_below_it_and_copies_of_such(record: Stored, void: bool) -> None:
    assert is_void(record, {"orders:2": 8, "marq.delayed:0": 5}) is void
    assert not is_void(record, {})
    # What was appended after the purge lies in a topic that was made again.
    assert is_void(record, {"orders:2": 8, "marq.delayed:0": 5, PURGED_AT: record.at_ms}) is void
    assert not is_void(record, {"orders:2": 8, "marq.delayed:0": 5, PURGED_AT: record.at_ms - 1})


def as_stored(record: Outgoing | None) -> Stored:
    """The record as the log would hold it."""
    assert record is not None
    return Stored(
        record.topic, record.partition, 0, 30_000, record.key, record.value, record.headers
    )
