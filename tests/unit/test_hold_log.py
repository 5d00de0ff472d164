"""What a record of a hold log is: a marker, a parked message, or nothing of ours."""

from __future__ import annotations

import pytest

from marq.core import names
from marq.core.fold import hold_log
from marq.core.markers import codec
from marq.core.markers.marker import Parked, Tick
from marq.core.markers.wire import WireWriter
from marq.core.messages import header
from marq.core.messages.header import Meta
from marq.errors import UnknownMarkerVersion

TICK = codec.encode(Tick())
PARKED = header.encode(Meta(queue="orders", delay_ms=60_000, ahead_ms=3_000))


def test_beside_parked_messages_headers_make_a_message_whatever_its_payload() -> None:
    assert hold_log.body(names.DELAYED, TICK, None) == Tick()
    assert hold_log.body(names.DELAYED, TICK, PARKED) == Parked(0, 60_000, 3_000, queue="orders")


def test_among_markers_headers_say_nothing() -> None:
    assert hold_log.body(names.MARKERS, TICK, PARKED) == Tick()


@pytest.mark.parametrize(
    ("value", "first_header"), [(b"hello", None), (None, None), (TICK[:-1], None), (b"", b"\0")]
)
def test_what_is_not_ours_is_nothing(value: bytes | None, first_header: bytes | None) -> None:
    assert hold_log.body(names.DELAYED, value, first_header) is None


def test_a_newer_version_stops_the_reader_and_says_where_it_lies() -> None:
    newer = bytes((TICK[0], 99, TICK[2]))

    with pytest.raises(UnknownMarkerVersion, match=r"marq.markers\[3\] at offset 7: .*upgrade"):
        hold_log.record((names.MARKERS, 3, 7), 0, newer, None)


def test_a_parked_message_of_a_newer_version_stops_the_reader() -> None:
    with pytest.raises(UnknownMarkerVersion, match=r"marq.delayed\[0\] at offset 7: .*upgrade"):
        hold_log.record((names.DELAYED, 0, 7), 0, b"", b"\x03" + PARKED[1:])


def test_a_newer_version_is_skipped_if_whoever_is_told_lets_it_pass() -> None:
    told: list[UnknownMarkerVersion] = []
    newer = bytes((TICK[0], 99, TICK[2]))

    skipped = hold_log.record((names.MARKERS, 3, 7), 5, newer, None, told.append)

    assert (skipped.offset, skipped.at_ms, skipped.body) == (7, 5, None)
    assert "marq.markers[3] at offset 7" in str(told[0])


def test_only_marq_s_own_header_parks() -> None:
    assert hold_log.said_of_parked(((header.NAME, PARKED), ("a", b"b"))) == PARKED
    assert hold_log.said_of_parked((("a", b"\x02"), (header.NAME, PARKED))) == b""
    assert hold_log.said_of_parked(((header.NAME, None),)) == b""
    assert hold_log.said_of_parked(()) is None


@pytest.mark.parametrize("name", ["delay_ms", "due_ms", "ahead_ms"])
def test_a_parked_message_for_a_time_beyond_all_is_nothing(name: str) -> None:
    tag = {"delay_ms": 3, "due_ms": 4, "ahead_ms": 5}[name]
    forged = WireWriter(header.encode(Meta(queue="orders")))
    forged.numbers((tag << 1, (1 << 64) - 1))

    assert hold_log.body(names.DELAYED, b"", forged.bytes()) is None
