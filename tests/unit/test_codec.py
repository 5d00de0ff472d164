"""The marker codec: frozen bytes, sizes, and typed errors for everything else."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from marq.core.markers import bits, codec, pieces
from marq.core.markers.marker import (
    FAILED,
    Action,
    Begun,
    Claim,
    ClaimId,
    EndedRuns,
    Failed,
    Forget,
    Held,
    HeldParked,
    Hold,
    KeepAlive,
    Marker,
    ParkedRef,
    Part,
    Progress,
    Restate,
    Restated,
    Source,
    Step,
    Tick,
)
from marq.core.markers.reason import REASON_CHARS
from marq.core.markers.wire import LONGEST_MS, MAX_INDEX, MOST, WireWriter
from marq.errors import MalformedMarker, MarkerError, NotAMarker, UnknownMarkerVersion

WORKER = 0x0123456789ABCDEF
SOURCE = Source(bytes(range(16)), 3, "orders", "audit", 2)
ID = ClaimId(WORKER, 300)

GOLDEN: dict[str, tuple[Marker, str]] = {
    "claim": (
        Claim(ID, SOURCE, 70_000, ((70_000, 500), (70_502, 3)), 11_000),
        "a90101efcdab8967452301ac02000102030405060708090a0b0c0d0e0f03066f7264657273056175"
        "64697402f855f0a2040200f4030203",
    ),
    "claim of one message": (
        Claim(ClaimId(0, 0), Source(bytes(16), 0, "q", "", 0), 0, ((0, 1),), 0),
        "a901010000000000000000000000000000000000000000000000000000017100000000010001",
    ),
    "progress": (
        Progress(
            (
                Step(ID, bits.span(0, 500)),
                Step(
                    ClaimId(WORKER, 301),
                    0b1011,
                    (Begun(0b0100, 30_000, 2, True, 3_000), Begun(0b10000, 1_000, 1, False, 0)),
                ),
                Step(ClaimId(7, 1), 0x5555555555),
            ),
            (ParkedRef(1_700_000_000_000, 42),),
        ),
        "a9010202efcdab896745230102ac020200f40300ad02030b020304b0ea0105b8170310e807020007"
        "0000000000000001010b5555555555000180d095ffbc312a",
    ),
    "keep-alive": (
        KeepAlive(WORKER, (1, 2, 3, 300, 70_000)),
        "a90103efcdab8967452301030103a80201c3a00401",
    ),
    "hold": (
        Hold(
            (
                Held(ID, 0b1, Action.REDELIVER, 5_000, 3_000, "busy"),
                Held(ID, 0b110, Action.BURY, reason="no such customer: é"),
                Held(ID, 0b1000, Action.EXTEND, 60_000),
            ),
            (
                HeldParked(ParkedRef(1_700_000_000_000, 9), Action.CANCEL),
                HeldParked(ParkedRef(1_700_000_000_000, 10), Action.CHECK, 30_000),
                HeldParked(ParkedRef(1_700_000_000_000, 11), Action.RELEASE, 1_000, 500),
            ),
        ),
        "a901040003efcdab8967452301ac020301018827b8170462757379efcdab8967452301ac02030602"
        "0000146e6f207375636820637573746f6d65723a20c3a9efcdab8967452301ac02030805e0d40300"
        "000380d095ffbc31090600000080d095ffbc310a04b0ea01000080d095ffbc310b03e807f40300",
    ),
    "hold by the tracker": (
        Hold((Held(ID, 1, Action.EXTEND, 1_000),), by_tracker=True),
        "a901040101efcdab8967452301ac02030105e807000000",
    ),
    "restate": (
        Restate(
            123_456,
            (
                Restated(
                    ID,
                    SOURCE,
                    ((70_000, 500), (70_502, 3)),
                    (
                        Part(0b1, 1_700_000_030_000, 3_000, 30_000, 2, True),
                        Part(0b10, 1_700_000_005_000, 0, 0, 1, False, Action.BURY, "no"),
                    ),
                ),
            ),
            (EndedRuns(SOURCE, ((0, 70_000), (70_002, 498))), EndedRuns(SOURCE, ())),
        ),
        "a90105c0c40701efcdab8967452301ac02000102030405060708090a0b0c0d0e0f03066f72646572"
        "730561756469740202f0a204f4030203020301b0ba97ffbc31b817b0ea01050000030288f795ffbc"
        "3100000202026e6f02000102030405060708090a0b0c0d0e0f03066f726465727305617564697402"
        "0200f0a20402f203000102030405060708090a0b0c0d0e0f03066f72646572730561756469740200",
    ),
    "tick": (
        Tick(),
        "a90106",
    ),
    "forget": (
        Forget((EndedRuns(SOURCE, ((0, 70_000), (70_002, 498))), EndedRuns(SOURCE, ()))),
        "a9010702000102030405060708090a0b0c0d0e0f03066f72646572730561756469740202"
        "00f0a20402f203000102030405060708090a0b0c0d0e0f03066f72646572730561756469740200",
    ),
}
"""Written once and frozen: these bytes lie in hold logs that must be read for ever."""


@pytest.mark.parametrize("name", GOLDEN)
def test_bytes_written_by_any_earlier_release_are_read(name: str) -> None:
    marker, frozen = GOLDEN[name]

    assert codec.decode(bytes.fromhex(frozen)) == marker


@pytest.mark.parametrize("name", GOLDEN)
def test_the_bytes_of_a_marker_never_change(name: str) -> None:
    marker, frozen = GOLDEN[name]

    assert codec.encode(marker).hex() == frozen.replace(" ", "")


def test_a_restatement_keeps_the_attempts_that_failed() -> None:
    failed = (Failed(1, 1_700_000_000_000, "busy"), Failed(2, 1_700_000_001_000, ""))
    part = Part(0b1, 1_700_000_030_000, attempt=3, failed=failed)
    restate = Restate(1, (Restated(ID, SOURCE, ((0, 1),), (part,)),))

    assert codec.decode(codec.encode(restate)) == restate


def test_a_claim_of_a_thousand_messages_is_smaller_than_a_message() -> None:
    source = Source(bytes(16), 7, "orders-of-the-day", "", 0)
    claim = Claim(ClaimId(WORKER, 5_000), source, 1 << 40, ((1 << 40, 1_000),), 11_000)

    assert len(codec.encode(claim)) < 80


def test_a_thousand_acks_in_one_run_cost_a_few_bytes() -> None:
    acked = Progress((Step(ID, bits.span(0, 1_000)),))

    assert len(codec.encode(acked)) < 24


def test_scattered_acks_are_a_bitmap_and_cost_an_eighth_of_a_byte_each() -> None:
    every_other = bits.of(range(0, 1_000, 2))

    in_one_run = len(codec.encode(Progress((Step(ID, 0),))))
    scattered = len(codec.encode(Progress((Step(ID, every_other),))))

    assert scattered - in_one_run <= 1_000 // 8 + 2


def test_few_far_acks_are_runs_and_do_not_cost_a_bitmap() -> None:
    far = bits.of([3, 60_000])

    assert len(codec.encode(Progress((Step(ID, far),)))) < 30


def test_of_runs_and_bitmap_the_shorter_is_taken_to_the_byte() -> None:
    late_and_scattered = bits.of(range(140, 160, 2))  # 10 runs of 21 bytes, a bitmap of 20

    empty = len(codec.encode(Progress((Step(ID, 0),))))

    assert len(codec.encode(Progress((Step(ID, late_and_scattered),)))) - empty == 20


@pytest.mark.parametrize(
    "mask", [0, 1, 0xFF, 0x5555, bits.span(9, 40), 1 << (MAX_INDEX - 1)], ids=hex
)
def test_runs_or_bitmap_the_same_indexes_come_back(mask: int) -> None:
    marker = Progress((Step(ID, mask),))

    assert codec.decode(codec.encode(marker)) == marker


def test_a_newer_version_says_upgrade_the_tracker_first() -> None:
    newer = bytes((codec.MAGIC, codec.VERSION + 1, 1))

    with pytest.raises(UnknownMarkerVersion, match="upgrade the tracker first"):
        codec.decode(newer)


def test_a_newer_version_is_known_as_such_though_its_kind_is_not() -> None:
    with pytest.raises(UnknownMarkerVersion):
        codec.decode(bytes((codec.MAGIC, 200, 99)) + b"what a later release means by it")


@pytest.mark.parametrize("data", [b"", b"\x00", b'{"json": true}', b"\xa8\x01\x06", b"\x01\x06"])
def test_bytes_of_others_are_not_a_marker(data: bytes) -> None:
    with pytest.raises(NotAMarker):
        codec.decode(data)


@pytest.mark.parametrize(
    "data",
    [
        bytes((codec.MAGIC,)),
        bytes((codec.MAGIC, codec.VERSION)),
        bytes((codec.MAGIC, 0, 6)),
        bytes((codec.MAGIC, codec.VERSION, 0)),
        bytes((codec.MAGIC, codec.VERSION, 7)),
    ],
)
def test_a_head_that_no_release_writes_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedMarker):
        codec.decode(data)


def body(kind: int, *numbers: int) -> bytes:
    return bytes((codec.MAGIC, codec.VERSION, kind, *numbers))


def test_a_number_without_end_is_refused_before_it_is_built() -> None:
    endless = body(2) + b"\xff" * 1_000_000

    started = time.perf_counter()
    with pytest.raises(MalformedMarker):
        codec.decode(endless)

    assert time.perf_counter() - started < 10


@pytest.mark.parametrize("last", [0x01, 0x02, 0x81], ids=["64 bits", "65 bits", "an eleventh byte"])
def test_a_number_has_64_bits_at_most(last: int) -> None:
    ref = b"\x00\x01" + b"\xff" * 9 + bytes((last,)) + b"\x00"

    if last == 0x01:
        assert codec.decode(body(2) + ref) == Progress(parked=(ParkedRef((1 << 64) - 1, 0),))
    else:
        with pytest.raises(MalformedMarker):
            codec.decode(body(2) + ref)


def test_a_record_that_announces_more_than_it_holds_allocates_nothing() -> None:
    far_too_many = b"\xff\xff\xff\xff\xff\x7f"
    hostile = [body(kind) + far_too_many for kind in range(1, 6)]
    hostile.append(body(3) + bytes(8) + b"\x01\x00" + far_too_many)
    hostile.append(body(2) + b"\x01" + bytes(8) + b"\x01\x00\x02\x00" + far_too_many)

    tracemalloc.start()
    for data in hostile:
        with pytest.raises(MalformedMarker):
            codec.decode(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 100_000


def test_a_record_of_short_runs_cannot_name_a_thousand_million_messages() -> None:
    step_of_65536 = b"\x00\x02\x00\x80\x80\x04\x00"
    count = 100_000
    hostile = body(2) + b"\x01" + bytes(8) + b"\xa0\x8d\x06" + step_of_65536 * count + b"\x00"

    tracemalloc.start()
    with pytest.raises(MalformedMarker, match="more messages than any worker has"):
        codec.decode(hostile)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 64_000_000


@pytest.mark.parametrize(
    "marker",
    [
        Claim(ID, SOURCE, 0, (), 1_000),
        Claim(ID, SOURCE, 0, ((0, MAX_INDEX + 1),), 1_000),
        Claim(ID, SOURCE, 5, ((4, 1),), 1_000),
        Claim(ID, SOURCE, 0, ((5, 2), (6, 1)), 1_000),
        Claim(ID, SOURCE._replace(topic_id=b"short"), 0, ((0, 1),), 1_000),
        Claim(ID, SOURCE, 0, ((0, 1),), LONGEST_MS + 1),
        Claim(ID, SOURCE, 0, ((0, 1),), -1),
        Progress((Step(ID, 1 << MAX_INDEX),)),
        Progress(parked=(ParkedRef(1 << 64, 0),)),
        KeepAlive(WORKER, (2, 1)),
        KeepAlive(WORKER, (2, 2)),
        Hold((Held(ID, 1, Action.EXPIRE),)),
        Hold((Held(ID, 1, Action.REDELIVER, after_ms=LONGEST_MS + 1),)),
    ],
    ids=lambda marker: type(marker).__name__.lower(),
)
def test_what_nobody_could_read_is_refused_by_the_writer(marker: Marker) -> None:
    with pytest.raises(ValueError):
        codec.encode(marker)


@pytest.mark.parametrize("name", GOLDEN)
def test_one_changed_byte_is_a_marker_or_a_typed_error(name: str) -> None:
    frozen = bytes.fromhex(GOLDEN[name][1])

    for at in range(len(frozen)):
        for value in range(256):
            changed = frozen[:at] + bytes((value,)) + frozen[at + 1 :]
            try:
                codec.decode(changed)
            except MarkerError:
                continue


@pytest.mark.parametrize(
    "source",
    [
        SOURCE._replace(queue=""),
        SOURCE._replace(queue="no queue"),
        SOURCE._replace(queue="x" * 300),
        SOURCE._replace(subscription="\n"),
        SOURCE._replace(partition=1 << 40),
    ],
)
def test_a_claim_of_what_cannot_be_is_refused_on_both_sides(source: Source) -> None:
    claim = Claim(ID, source, 0, ((0, 1),), 1_000)
    out = WireWriter(codec.encode(Claim(ID, SOURCE, 0, ((0, 1),), 1_000))[:3])
    pieces.put_claim_id(out, claim.id)
    pieces.put_source(out, source)

    with pytest.raises(ValueError, match="nothing can be claimed"):
        codec.encode(claim)
    with pytest.raises(MalformedMarker, match="no topic"):
        codec.decode(out.bytes() + bytes((100, 0, 1, 0, 1)))


def test_reasons_are_cut_and_cleaned_where_they_are_written_and_where_they_are_read() -> None:
    said = "\ud800" + "x" * 5_000
    kept = "?" + "x" * (REASON_CHARS - 1)
    failed = tuple(Failed(attempt, 0, said) for attempt in range(1, FAILED + 3))
    part = Part(0b1, 1_700_000_030_000, attempt=3, reason=said, failed=failed)
    hold = Hold((Held(ID, 1, Action.BURY, reason=said),))

    (held,) = codec.decode(codec.encode(hold)).held  # type: ignore[union-attr]
    (claim,) = codec.decode(  # type: ignore[union-attr]
        codec.encode(Restate(1, (Restated(ID, SOURCE, ((0, 1),), (part,)),)))
    ).claims
    long = WireWriter(codec.encode(hold)[: -len(kept) - 3])
    long.text("y" * 5_000)
    long.number(0)
    (read,) = codec.decode(long.bytes()).held  # type: ignore[union-attr]

    assert held.reason == kept
    assert {each.reason for each in claim.parts[0].failed} == {claim.parts[0].reason} == {kept}
    assert [each.attempt for each in claim.parts[0].failed] == list(range(3, FAILED + 3))
    assert read.reason == "y" * REASON_CHARS


def test_an_attempt_beyond_counting_is_the_most_that_is_counted() -> None:
    begun = Begun(0b1, 1_000, 1 << 62, True, 0)
    marker = Progress((Step(ID, 0b10, (begun,)),))

    assert codec.decode(codec.encode(marker)) == Progress(
        (Step(ID, 0b10, (Begun(0b1, 1_000, MOST, True, 0),)),)
    )
