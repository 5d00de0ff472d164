"""The catalog: the first change of a version wins, and everyone agrees who did."""

from __future__ import annotations

import msgspec
import pytest

from marq.core import catalog
from marq.core.catalog import Catalog, Entry, QueueDefinition

FIRST = QueueDefinition(lease_ms=1_000)
SECOND = QueueDefinition(lease_ms=2_000)


def test_of_two_changes_of_one_version_the_first_wins() -> None:
    found = Catalog()

    assert found.apply(Entry("queue", "orders", 1, FIRST))
    assert not found.apply(Entry("queue", "orders", 1, SECOND))

    assert found.queue("orders") == FIRST


def test_a_change_that_skips_a_version_is_void() -> None:
    found = Catalog()

    assert not found.apply(Entry("queue", "orders", 2, FIRST))

    assert found.queue("orders") is None


def test_every_reader_of_the_log_agrees() -> None:
    log = [
        Entry("queue", "orders", 1, FIRST),
        Entry("queue", "orders", 1, SECOND),
        Entry("queue", "orders", 2, SECOND),
        Entry("queue", "orders", 2, None),
    ]
    readers = Catalog(), Catalog()

    won = [[reader.apply(catalog.decode(catalog.encode(entry))) for entry in log]
           for reader in readers]  # fmt: skip

    assert won == [[True, False, True, False]] * 2
    assert [reader.queue("orders") for reader in readers] == [SECOND, SECOND]


def test_a_deleted_queue_keeps_its_version() -> None:
    found = Catalog()
    found.apply(found.change("orders", FIRST))
    found.apply(found.change("orders", None))

    assert found.queue("orders") is None
    assert list(found.queues()) == []
    assert found.change("orders", SECOND).version == 3


def test_queues_are_named_in_order() -> None:
    found = Catalog()
    for name in ("b", "c", "a"):
        found.apply(found.change(name, FIRST))

    assert list(found.queues()) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "definition",
    [None, QueueDefinition(), QueueDefinition(ttl_ms=5, paused=True, purged={"orders:0": 7})],
)
def test_an_entry_is_read_back_as_it_was(definition: QueueDefinition | None) -> None:
    entry = Entry("queue", "orders", 3, definition)

    assert catalog.decode(catalog.encode(entry)) == entry


@pytest.mark.parametrize("value", [b"", b"{}", b"not json", b'{"kind":1,"name":"a","version":1}'])
def test_anything_else_is_an_error(value: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        catalog.decode(value)


def test_an_option_of_a_newer_version_is_not_ignored() -> None:
    value = b'{"kind":"queue","name":"a","version":1,"definition":{"colour":"red"}}'

    with pytest.raises(msgspec.ValidationError, match="colour"):
        catalog.decode(value)


def test_differences_name_only_what_was_asked_for() -> None:
    stored = QueueDefinition(lease_ms=60_000, backoff_ms=(1_000, 5_000))

    assert catalog.differences(stored, {"lease_ms": 60_000}) == []
    assert catalog.differences(stored, {"lease_ms": 1_500, "ttl_ms": 1_000}) == [
        "lease is '1m', not '1500ms'",
        "ttl is None, not '1s'",
    ]
    assert catalog.differences(stored, {"backoff_ms": (0, 5_000)}) == [
        "backoff is ('1s', '5s'), not ('0s', '5s')"
    ]
