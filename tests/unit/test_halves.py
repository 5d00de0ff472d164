"""What becomes of half messages: finals, questions, dead letters."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from marq.core.catalog.definitions import QueueDefinition
from marq.core.fate import act, halves, redelivery
from marq.core.fate.redelivery import Context, Fate
from marq.core.fold.overdue import Due
from marq.core.fold.parked import Answers
from marq.core.markers.marker import Action, Check, Failed, HalfAnswer, HeldParked, Hold, ParkedRef
from marq.core.messages import header
from marq.core.messages.header import NAME, Meta
from marq.core.messages.owned import Owned
from marq.core.messages.request import requested
from marq.core.messages.sending import Message
from marq.core.messages.stored import Stored, is_void
from marq.core.messages.terms import HalfTerms
from marq.errors import MalformedMarker, UnknownMarkerVersion

NOW = 1_700_000_000_000
HALF = HalfTerms("shop", "host:7", 3, 10_000, 30_000, max_checks=2, give_up_after_ms=604_800_000)
REF = ParkedRef(NOW + 10_000, 17)
ORDERS = QueueDefinition()


def stored(half: HalfTerms = HALF, at_ms: int = NOW, **said: object) -> Stored:
    meta = Meta(queue="orders", half=half, **said)  # type: ignore[arg-type]
    headers = ((NAME, header.encode(meta)), ("region", b"eu"))
    return Stored("marq.delayed", 2, 17, at_ms, b"7", b"payload", headers)


def context(
    definition: QueueDefinition | None = ORDERS, clock_ms: int = NOW + 10_000, made: int = 3
) -> Context:
    return Context("orders", definition, clock_ms, 0.0, made=made, checks="marq.checks.shop")


def due(action: Action = Action.CHECK, tries: int = 0, half: Answers | None = None) -> Due:
    return Due(REF, action, NOW + 10_000, tries, "", "orders", half or Answers())


def test_a_half_message_asks_its_group_with_payload_and_headers() -> None:
    found = halves.decided(due(tries=4), stored(), HALF, 1, context())

    assert found.fate is Fate.ASKED and found.record is not None
    assert (found.record.topic, found.record.value) == ("marq.checks.shop", b"payload")
    request, headers = requested(found.record.key, found.record.headers)
    assert (request.address, request.ref, request.partition) == ("marq.delayed:2:17", REF, 2)
    assert (request.number, headers) == (5, (("region", b"eu"),))


@pytest.mark.parametrize(
    ("tries", "heard", "wait_ms"),
    [(0, 0, 30_000), (1, 0, 60_000), (2, 0, 120_000), (9, 0, 300_000), (9, 9, 30_000)],
)
def test_what_nobody_hears_is_asked_ever_more_rarely(tries: int, heard: int, wait_ms: int) -> None:
    found = halves.decided(due(tries=tries, half=Answers(0, heard)), stored(), HALF, 1, context())

    assert found.hold == HeldParked(REF, Action.CHECK, wait_ms)


def test_without_its_group_it_waits_and_nobody_is_asked() -> None:
    nobody = replace(context(), checks="")

    found = halves.decided(due(), stored(), HALF, 1, nobody)

    assert found.record is None and found.hold is not None


def test_a_committed_half_is_sent_as_if_it_had_been_sent_now() -> None:
    half = stored(delay_ms=5_000, ttl_ms=60_000)

    found = halves.decided(due(Action.RELEASE), half, HALF, 1, context())

    assert found.fate is Fate.COPIED and found.record is not None
    assert (found.record.topic, found.record.partition, found.record.key) == ("orders", 1, b"7")
    meta, headers = header.split(found.record.headers)
    assert meta == Meta(delay_ms=5_000, ttl_ms=60_000, origin="marq.delayed:2:17")
    assert headers == (("region", b"eu"),)


def test_owner_and_act_make_the_same_final() -> None:
    half = stored(delay_ms=5_000, message_id="mine")
    by_act = halves.decided(due(Action.RELEASE), half, HALF, 1, context()).record

    by_owner, is_parked = halves.final(half.address, half.meta(), NOW)

    assert by_act is not None and header.split(by_act.headers)[0] == by_owner
    assert not is_parked


@pytest.mark.parametrize(
    "message", [Message(b"1"), Message(b"1", headers=(("a", b"b"),)), Message(b"1", delay_ms=5)]
)
def test_what_is_written_fast_is_what_the_codec_makes(message: Message) -> None:
    meta = halves.half_meta("orders", HALF, message)
    said, _ = halves.final("marq.delayed:0:7", meta, NOW)

    assert halves.half_headers("orders", HALF, message) == header.join(meta, message.headers)
    assert halves.final_headers("marq.delayed:0:7", "orders", HALF, message, NOW) == (
        False,
        header.join(said, message.headers),
    )


def test_a_committed_half_with_a_long_delay_is_parked_as_a_delayed_message() -> None:
    found = halves.decided(due(Action.RELEASE), stored(delay_ms=60_000), HALF, 1, context())

    assert found.fate is Fate.PARKED and found.record is not None
    meta = header.split(found.record.headers)[0]
    assert (meta.queue, meta.delay_ms, meta.half) == ("orders", 60_000, None)


def test_a_purge_is_not_about_what_is_committed_later() -> None:
    found = halves.decided(due(Action.RELEASE), stored(), HALF, 1, context()).record
    assert found is not None
    purged = {"marq.delayed:2": 100, "orders:1": 5, "at_ms": NOW + 5_000}

    later = Stored("orders", 1, 6, NOW + 10_000, found.key, found.value, found.headers)

    assert not is_void(later, purged)


@pytest.mark.parametrize(
    ("answers", "clock_ms"),
    [(Answers(2, 2), NOW + 100_000), (Answers(), NOW + 604_800_000)],
)
def test_enough_unknown_or_too_old_it_is_given_up(answers: Answers, clock_ms: int) -> None:
    found = halves.decided(due(half=answers), stored(), HALF, 1, context(clock_ms=clock_ms))

    assert (found.fate, found.record) == (Fate.GIVEN_UP, None)
    assert found.hold == HeldParked(REF, Action.BURY)


def test_given_up_it_is_a_dead_letter_that_tells_who_was_asked() -> None:
    answers = Answers(2, 5, (Failed(1, NOW + 1, "database away"), Failed(5, NOW + 2, "timeout")))

    found = halves.decided(due(Action.BURY, 5, answers), stored(), HALF, 1, context())

    assert found.fate is Fate.BURIED and found.record is not None
    letter = Stored("dlq.orders", 0, 0, NOW, b"7", b"payload", found.record.headers)
    assert "never decided" in redelivery.reason_of(letter)
    assert "'shop' was asked 5 times" in redelivery.reason_of(letter)
    history = letter.meta().history
    assert [(past.worker, past.reason) for past in history] == [
        ("shop", "database away"),
        ("shop", "timeout"),
    ]
    assert (letter.meta().copies, letter.meta().half) == (0, None)
    assert redelivery.redriven(letter, 1).topic == "orders"
    assert letter.message_id() == "marq.delayed:2:17"


def test_where_nothing_can_be_a_dead_letter_nothing_is_given_up() -> None:
    answers = Answers(99, 99)
    queue = QueueDefinition(dead_letter=False)

    found = halves.decided(due(half=answers, tries=99), stored(), HALF, 1, context(queue))

    assert found.fate is Fate.ASKED


@pytest.mark.parametrize(("definition", "made"), [(None, 0), (ORDERS, 4)])
@pytest.mark.parametrize("action", [Action.RELEASE, Action.BURY])
def test_of_a_deleted_queue_it_is_a_dead_letter(
    action: Action, definition: QueueDefinition | None, made: int
) -> None:
    about = context(definition, made=made)

    found = halves.decided(due(action), stored(), HALF, 1, about)

    assert found.fate is Fate.BURIED and found.record is not None
    assert found.record.topic == "dlq.orders"


def test_no_copy_of_a_message_is_a_half() -> None:
    forged = stored()
    message = Stored("orders", 0, 5, NOW, None, b"", forged.headers)

    copy = redelivery.given_back(message, "orders")

    assert header.split(copy.headers)[0].half is None


def test_terms_travel_in_a_header_that_older_trackers_stop_at() -> None:
    meta = Meta(queue="orders", half=HALF, unknown=((99 << 1, 4),))

    value = header.encode(meta)

    assert value[0] == 2 and header.decode(value) == meta
    assert header.encode(Meta(queue="orders"))[0] == 1
    with pytest.raises(UnknownMarkerVersion):
        header.decode(b"\x03" + value[1:])


@pytest.mark.parametrize(
    "half",
    [
        replace(HALF, group=""),
        replace(HALF, check_after_ms=0),
        replace(HALF, check_every_ms=1),
        replace(HALF, max_checks=1 << 40),
        replace(HALF, give_up_after_ms=1 << 60),
        replace(HALF, owner="x" * 2_000),
    ],
)
def test_terms_out_of_range_make_no_half_message(half: HalfTerms) -> None:
    value = header.encode(Meta(queue="orders", half=half))

    with pytest.raises(MalformedMarker):
        header.decode(value)


@pytest.mark.parametrize(
    "headers",
    [(), (("marq", None),), (("other", b""),), (("marq", b"\x02"),), (("marq", b"\x01\x80"),)],
)
def test_what_is_no_request_is_told_apart(headers: header.Headers) -> None:
    with pytest.raises(MalformedMarker):
        requested(b"marq.delayed:0:1", headers)


def test_a_check_is_dropped_once_the_half_is_decided_and_a_release_is_not() -> None:
    asked, committed = due(), due(Action.RELEASE)
    commit = HalfAnswer((REF,), Check.COMMIT)
    unknown = HalfAnswer((REF,), Check.UNKNOWN, 1)
    again = Hold(parked=(HeldParked(REF, Action.CHECK, 1_000),), by_tracker=True)

    assert act.standing([asked], [commit]) == []
    assert act.standing([asked], [unknown]) == [asked]
    assert act.standing([asked], [again]) == []
    assert act.standing([committed], [HalfAnswer((REF,), Check.ROLLBACK), again]) == [committed]


def test_ends_and_holds_are_said_apart() -> None:
    hold = HeldParked(REF, Action.CHECK, 1_000)
    other = Due(ParkedRef(5, 5), Action.RELEASE, 5, 0, "")

    said = act.said([(due(), hold), (other, None)])

    assert said == [Hold(parked=(hold,), by_tracker=True), act.ends([other])]


def test_an_owner_that_stood_still_leaves_the_final_to_the_tracker() -> None:
    owned = Owned(REF, 1_000)

    owned.extended(900, 400)
    in_time = owned.lapsed(1_299), owned.lapsed(1_300)
    owned.extended(1_300, 400)

    assert in_time == (False, True)
    assert owned.lapsed(1_350)
