"""What a record of a hold log is: a marker, a parked message, or nothing of ours."""

from __future__ import annotations

import pytest

from marq.core import codec, header, hold_log, names
from marq.core.header import Meta
from marq.core.marker import Parked, Tick
from marq.errors import UnknownMarkerVersion

TICK = codec.encode(Tick())
PARKED = header.encode(Meta(queue="orders", delay_ms=60_000, ahead_ms=3_000))


def test_beside_parked_messages_headers_make_a_message_whatever_its_payload() -> None:
    assert hold_log.body(names.DELAYED, TICK, None) == Tick()
    assert hold_log.body(names.DELAYED, TICK, PARKED) == Parked(0, 60_000, 3_000, queue="orders")


def test_among_markers_headers_say_nothing() -> None:
    assert hold_log.body(names.MARKERS, TICK, PARKED) == Tick()


@pytest.mark.parametrize(
    ("value", "first_header"), [(b"hello", None), (None, None), (TICK[:-1], None), (b"", b"x")]
)
def test_what_is_not_ours_is_nothing(value: bytes | None, first_header: bytes | None) -> None:
    assert hold_log.body(names.DELAYED, value, first_header) is None


def test_a_newer_version_stops_the_reader() -> None:
    with pytest.raises(UnknownMarkerVersion, match="upgrade the tracker first"):
        hold_log.body(names.MARKERS, bytes((TICK[0], 99, TICK[2])), None)
