"""Every rule of a group's config, and the golden vectors of keys and allocation."""

from __future__ import annotations

from typing import Any

import pytest

from marq.errors import ConfigError
from marq.groups import allocation, config, keys
from marq.groups.config import Filter, GroupConfig, Mapping

ALICE_AND_BOB = (Mapping("alice", (0, 2, 4)), Mapping("bob", (1, 3, 5)))


@pytest.mark.parametrize(
    ("key", "partition"),
    [
        ("", 1), ("a", 0), ("foo.bar", 6), ("cust-42", 3), ("user_12345", 2), ("foo.0", 3),
        ("foo.1", 4), ("bar.0", 0), ("bar.9", 7), ("bad.5", 9), ("ab", 6), ("cust1eu", 5),
    ],
)  # fmt: skip
def test_a_key_has_its_partition_for_good(key: str, partition: int) -> None:
    assert keys.partition_of(key.encode(), 10) == partition


@pytest.mark.parametrize(
    ("key", "found"),
    [("", 0x811C9DC5), ("user_12345", 0x2B41AFD6), ("ab", 0x4D2505CA), ("cust1eu", 0xB893BF03)],
)
def test_the_hash_is_fnv_1a_of_32_bits(key: str, found: int) -> None:
    assert keys.fnv1a(key.encode()) == found


@pytest.mark.parametrize(
    ("partitions", "found"),
    [
        (2, [1, 0, 1, 0, 1, 0, 1, 0, 1, 0]),
        (4, [3, 0, 1, 2, 3, 0, 1, 2, 3, 0]),
        (10, [3, 4, 1, 2, 7, 8, 5, 6, 5, 6]),
    ],
)
def test_ten_digits_are_spread_as_ever(partitions: int, found: list[int]) -> None:
    assert [keys.partition_of(str(n).encode(), partitions) for n in range(10)] == found


@pytest.mark.parametrize(
    ("subject", "filters", "key"),
    [
        ("a.b", [Filter("*.*", (1, 2))], b"ab"),
        ("cust1.x.eu", [Filter("*.x.*", (1, 2))], b"cust1eu"),
        ("cust1.x.eu", [Filter("*.x.*", (2, 1))], b"eucust1"),
        ("a.b", [Filter("*.*")], b"a.b"),
        ("a.b.c", [Filter("a.>")], b"a.b.c"),
        ("a.b.c", [Filter("*.>", (1,))], b"a"),
        ("a", [Filter("a.>")], None),
        ("a.b", [Filter("*")], None),
        ("b.1", [Filter("a.*", (1,)), Filter("b.*", (1,))], b"1"),
    ],
)
def test_a_subject_s_key_is_what_its_filter_chooses(
    subject: str, filters: list[Filter], key: bytes | None
) -> None:
    assert keys.subject_key(subject, filters) == key


def numbered(count: int) -> list[str]:
    return [f"m{n}" for n in range(1, count + 1)]


@pytest.mark.parametrize(
    ("partitions", "members", "found"),
    [
        (6, numbered(3), "m1:0,1 m2:2,3 m3:4,5"),
        (7, numbered(3), "m1:0,1,6 m2:2,3 m3:4,5"),
        (8, numbered(3), "m1:0,1,6 m2:2,3,7 m3:4,5"),
        (10, numbered(3), "m1:0,1,2,9 m2:3,4,5 m3:6,7,8"),
        (10, numbered(4), "m1:0,1,8 m2:2,3,9 m3:4,5 m4:6,7"),
        (12, numbered(7), "m1:0,7 m2:1,8 m3:2,9 m4:3,10 m5:4,11 m6:5 m7:6"),
        (16, numbered(5), "m1:0,1,2,15 m2:3,4,5 m3:6,7,8 m4:9,10,11 m5:12,13,14"),
        (4, ["m1"], "m1:0,1,2,3"),
        (3, numbered(5), "m1:0 m2:1 m3:2"),
        (1, ["m1", "m2"], "m1:0"),
        (4, ["b", "a", "b", "c"], "a:0,3 b:1 c:2"),
        (5, ["m10", "m2", "m1"], "m1:0,3 m10:1,4 m2:2"),
        (5, ["é", "z", "Z", "a"], "Z:0,4 a:1 z:2 é:3"),
        (4, [], ""),
    ],
)
def test_partitions_are_spread_evenly(partitions: int, members: list[str], found: str) -> None:
    by_partition = allocation.owners(GroupConfig(partitions, members=tuple(members)))

    assert shown(by_partition) == found


def shown(by_partition: allocation.Owners) -> str:
    names = sorted(set(by_partition) - {""}, key=str.encode)
    return " ".join(
        f"{name}:{','.join(map(str, sorted(allocation.partitions_of(name, by_partition))))}"
        for name in names
    )


def test_mappings_are_taken_verbatim() -> None:
    by_partition = allocation.owners(GroupConfig(6, member_mappings=ALICE_AND_BOB))

    assert shown(by_partition) == "alice:0,2,4 bob:1,3,5"
    assert allocation.partitions_of("charlie", by_partition) == frozenset()


def test_the_sticky_allocation_moves_as_little_as_can_be() -> None:
    moved = {"even": [0] * 5, "sticky": [0] * 5}
    for way, counts in moved.items():
        before: allocation.Owners = ()
        for count in range(1, 7):
            asked = GroupConfig(10, members=tuple(numbered(count)), allocation=way)  # type: ignore[arg-type]
            now = allocation.owners(asked, before)
            if before:
                counts[count - 2] = sum(a != b for a, b in zip(before, now, strict=True))
            before = now

    assert moved == {"even": [5, 6, 7, 2, 9], "sticky": [5, 3, 2, 2, 1]}


def test_the_sticky_allocation_stays_even_when_members_leave() -> None:
    before = allocation.owners(GroupConfig(10, members=tuple(numbered(6)), allocation="sticky"))

    now = allocation.owners(GroupConfig(10, members=("m2", "m5"), allocation="sticky"), before)

    assert sorted(len(allocation.partitions_of(name, now)) for name in ("m2", "m5")) == [5, 5]
    assert all(now[p] == name for p, name in enumerate(before) if name in ("m2", "m5"))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"max_members": 0}, "must be 1 to 10,000, not 0"),
        ({"partitioning_filters": (Filter(""),)}, "must not be empty"),
        ({"partitioning_filters": (Filter("a.b"),)}, "needs a '*'"),
        ({"partitioning_filters": (Filter("a.*", (1, 2)),)}, "1 '*' tokens, 2 are chosen"),
        ({"partitioning_filters": (Filter("*.*", (1, 1)),)}, "twice"),
        ({"partitioning_filters": (Filter("*.*", (0,)),)}, "numbered 1 to 2"),
        ({"partitioning_filters": (Filter("*.*", (3,)),)}, "numbered 1 to 2"),
        ({"members": ("a",), "member_mappings": ALICE_AND_BOB}, "not both"),
        ({"max_members": 1, "member_mappings": ALICE_AND_BOB}, "2 members are mapped"),
        ({"member_mappings": (Mapping("a", (0, 1)),) * 2}, "a member is mapped twice"),
        (
            {"member_mappings": (Mapping("a", (0, 1, 2, 3)), Mapping("b", (3, 4, 5)))},
            "a partition is mapped twice",
        ),
        ({"member_mappings": (Mapping("a", (0, 6)),)}, "0 to 5, not 6"),
        ({"member_mappings": (Mapping("a", (-1,)),)}, "0 to 5, not -1"),
        ({"member_mappings": (Mapping("a", (0, 1, 2, 3, 4)),)}, "5 is not"),
        ({"kind": "static", "partitioning_filters": (Filter("*"),)}, "copies nothing"),
        ({"lease_ms": 999}, "at least 1000ms"),
        ({"max_ack_pending": 0}, "max_ack_pending must be at least 1"),
        ({"ack_wait_ms": 0}, "ack_wait must be at least 1"),
        ({"max_deliver": -1}, "max_deliver must be at least 0"),
    ],
)
def test_a_bad_config_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace("*", r"\*")):
        config.checked(GroupConfig(**{"max_members": 6, **fields}))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"members": ("a", "a", "b", "c", "d", "e", "f", "g")},
        {"member_mappings": ALICE_AND_BOB},
        {"partitioning_filters": (Filter("a.*.*", (2,)), Filter("b.>"))},
    ],
)
def test_a_good_config_passes(fields: dict[str, Any]) -> None:
    assert config.checked(GroupConfig(6, **fields)) == GroupConfig(6, **fields)


@pytest.mark.parametrize("name", ["", "a.b", "a b", "é", None])
def test_a_group_s_name_must_fit_into_a_topic_s(name: Any) -> None:
    with pytest.raises(ConfigError, match="letters, digits"):
        config.group_name(name)


def test_members_are_added_and_dropped() -> None:
    two = config.added(GroupConfig(6, members=("a",)), ["b", "", "a"])

    assert two.members == ("a", "b")
    assert config.dropped(two, ["a", "", "x"]).members == ("b",)


@pytest.mark.parametrize("change", [config.added, config.dropped])
def test_a_change_needs_a_name_and_a_group_with_members(change: Any) -> None:
    with pytest.raises(ConfigError, match="at least one member"):
        change(GroupConfig(6), ["", ""])
    with pytest.raises(ConfigError, match="is mapped"):
        change(GroupConfig(6, member_mappings=ALICE_AND_BOB), ["a"])
    with pytest.raises(ConfigError, match="static group is fixed"):
        change(GroupConfig(6, kind="static"), ["a"])


def test_mappings_clear_members_and_without_them_nobody_is_left() -> None:
    mapped = config.mapped(GroupConfig(6, members=("a",)), ALICE_AND_BOB)

    assert (mapped.members, mapped.member_mappings) == ((), ALICE_AND_BOB)
    assert config.mapped(mapped, ()).names == ()


def test_a_difference_is_named() -> None:
    found = config.differences(GroupConfig(6, members=("a",)), {"max_members": 5, "lease_ms": 2000})

    assert found == ["max_members is 6, not 5"]
