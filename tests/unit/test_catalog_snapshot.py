"""Snapshots of the catalog: what a reader makes of a log whose beginning is gone."""

from __future__ import annotations

import pytest

from marq.core.catalog import definitions
from marq.core.catalog import snapshot as catalog_snapshot
from marq.core.catalog.definitions import Catalog, NotAnEntry, QueueDefinition
from marq.core.catalog.reader import CatalogReader, ReadRecord, trim_to
from marq.core.catalog.snapshot import SnapshotPart, Whole

FUTURE = b'{"kind":"queue","name":"f","version":1,"definition":{"colour":"\\"red\\""}}'


def some() -> Catalog:
    found = Catalog()
    for name in ("a", "b", "c"):
        found.apply(found.change(name, QueueDefinition(lease_ms=7)))
    found.apply(found.change("a", None))
    found.apply(found.change("a", QueueDefinition()))
    found.apply(found.change("b", None))
    found.apply(definitions.decode(FUTURE))
    found.apply(found.take_over("me"))
    return found


@pytest.mark.parametrize("most", [definitions.MOST_BYTES, catalog_snapshot._ROOM + 100])
def test_a_snapshot_says_all_that_is_in_force(most: int) -> None:
    known = some()
    parts = catalog_snapshot.split(known.kept(), 100, "me:100", most)
    reader = CatalogReader(100)

    for number, value in enumerate(parts):
        assert not reader.is_whole
        reader.take(ReadRecord(100 + number, 5, value))

    assert reader.is_whole
    assert reader.catalog.kept() == known.kept()
    assert reader.catalog.made("a") == 3
    assert (len(parts) > 3) == (most < definitions.MOST_BYTES)


def test_no_part_is_larger_than_a_record_may_be() -> None:
    known = Catalog()
    purged = {f"queue-with-a-long-name:{number}": 1 << 40 for number in range(2_000)}
    for number in range(30):
        known.apply(known.change(f"q{number}", QueueDefinition(purged=purged)))

    parts = catalog_snapshot.split(known.kept(), 0, "me")

    assert len(parts) > 3
    assert max(map(len, parts)) <= definitions.MOST_BYTES


def test_an_empty_catalog_has_a_snapshot_too() -> None:
    [value] = catalog_snapshot.split((), 3, "me")
    reader = CatalogReader(3)

    reader.take(ReadRecord(3, 0, value))

    assert reader.is_whole


def test_changes_it_does_not_stand_for_count_beside_it() -> None:
    known = some()
    [value] = catalog_snapshot.split(known.kept(), 10, "me")
    after = known.change("c", None)
    reader = CatalogReader(9)

    reader.take(ReadRecord(9, 0, definitions.encode(known.change("d", QueueDefinition()))))
    reader.take(ReadRecord(10, 0, definitions.encode(after)))
    reader.take(ReadRecord(11, 0, value))

    assert reader.catalog.queue("c") is None
    assert reader.catalog.queue("d") is None


def test_one_that_claims_to_know_what_comes_counts_for_nothing() -> None:
    [value] = catalog_snapshot.split((), 50, "me")
    reader = CatalogReader(10)

    reader.take(ReadRecord(10, 0, value))

    assert not reader.is_whole
    assert reader.snapshots == ()


def test_a_snapshot_of_a_newer_format_is_no_entry() -> None:
    value = b'{"kind":"snapshot","name":"me:1","version":0,"blocks":[]}'

    with pytest.raises(NotAnEntry):
        CatalogReader(0).take(ReadRecord(0, 0, value))


def test_a_release_that_knows_no_snapshots_takes_one_for_a_change_that_lost() -> None:
    [value] = catalog_snapshot.split(some().kept(), 10, "me")
    found = catalog_snapshot.part_of(value)

    assert isinstance(found, SnapshotPart)
    assert found.version == 0


def test_the_log_is_trimmed_to_a_snapshot_of_some_age() -> None:
    snapshots = (Whole(10, 1_000, ()), Whole(20, 2_000, ()), Whole(30, 3_000, ()))

    assert trim_to(snapshots, 500) == 0
    assert trim_to(snapshots, 2_500) == 20
