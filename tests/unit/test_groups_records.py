"""Records of a group's logs that nobody of marq's wrote: nobody is stopped by them."""

from __future__ import annotations

import pytest

from marq.groups import records
from marq.groups.config import GroupConfig
from marq.groups.records import ConfigRecord, HoldingRecord, LeaseBeat

HOLD = HoldingRecord("c", 0, "m", "made", (0, 1), 1, "i")
DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"\xff\xfe",
        DEEP,
        b'{"record":"hold","x":' + DEEP + b"}",
        b'{"record":"hold","claim":"\xff","n":0,"member":"m","prev":"","partitions":[],"version":1}',
        b'{"record":"hold","claim":"\\ud800","n":0,"member":"m","prev":"","partitions":[],"version":1}',
        b'{"record":"hold","claim":"c","n":' + b"9" * 5_000 + b',"member":"m"}',
        b'{"record":"lease","member":"m","claim":"c","instance":"i"}',
        b"null",
    ],
    ids=range(10),
)  # fmt: skip
def test_what_is_no_record_of_the_control_log_is_none(value: bytes | None) -> None:
    assert records.decode(value) is None


@pytest.mark.parametrize("value", [None, b"", DEEP, b'{"x":' + DEEP + b"}", b'{"member":"\xff"}'])
def test_what_is_no_lease_is_none(value: bytes | None) -> None:
    assert records.decode_lease(value) is None


@pytest.mark.parametrize(
    "config",
    [
        GroupConfig(1_000_000_000_000),
        GroupConfig(0),
        GroupConfig(4, lease_ms=0),
        GroupConfig(4, ack_wait_ms=-1),
    ],
)
def test_a_config_that_breaks_a_rule_is_nobody_s(config: GroupConfig) -> None:
    assert records.decode(records.encode(ConfigRecord("x", 2, config))) is None


def test_what_was_written_is_read() -> None:
    made = ConfigRecord("made", 1, GroupConfig(4, members=("a", "b")), sources=(0, 7))
    lease = LeaseBeat("m", "c", "i", resigned=True)

    assert [records.decode(records.encode(each)) for each in (made, HOLD)] == [made, HOLD]
    assert records.decode_lease(records.encode(lease)) == lease


def test_a_field_of_a_newer_release_is_passed_over() -> None:
    newer = records.encode(HOLD)[:-1] + b',"color":{"of":["a","newer"]}}'

    assert records.decode(newer) == HOLD
