"""Parked messages and idle sources in a state store: the same as in memory, with few reads."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from hypothesis import given
from hypothesis import strategies as st

from marq.core.fold.parked import Chunks, ParkedEntry
from marq.core.fold.sources import IDLE_MS, Claimed, Sources
from marq.core.markers.marker import Action, ParkedRef
from marq.core.markers.runs import Runs
from marq.spark.stored import PIECES, StoredChunks, StoredShelves


class Store:
    """A map as Spark has it."""

    def __init__(self) -> None:
        self.blobs: dict[int, bytes] = {}
        self.read_bytes = 0

    def getValue(self, key: tuple[int]) -> tuple[bytes] | None:
        found = self.blobs.get(key[0])
        self.read_bytes += len(found or b"")
        return None if found is None else (found,)

    def updateValue(self, key: tuple[int], value: tuple[bytes]) -> None:
        self.blobs[key[0]] = value[0]

    def removeKey(self, key: tuple[int]) -> None:
        self.blobs.pop(key[0], None)


def entry(offset: int) -> ParkedEntry:
    return ParkedEntry(ParkedRef(1_000, offset), 1_000, 10, Action.RELEASE, queue="orders")


steps = st.tuples(st.sampled_from(["add", "end", "look"]), st.integers(0, 2), st.integers(0, 4))


@given(st.lists(st.lists(steps, max_size=6), max_size=80))
def test_chunks_in_a_store_are_what_chunks_in_memory_are(batches: list[list[tuple]]) -> None:  # type: ignore[type-arg]
    store, plain, number = Store(), Chunks(), 0

    for batch in batches:
        kept = StoredChunks(store)
        for step, bucket, which in batch:
            number += 1
            if step == "add":
                plain.add(bucket, entry(number))
                kept.add(bucket, entry(number))
            elif bucket in plain:
                assert kept[bucket] == plain[bucket]
                if step == "end":
                    end(plain, bucket, which)
                    end(kept, bucket, which)
        kept.save()

    left = StoredChunks(store)
    assert {bucket: left[bucket] for bucket in plain} == plain
    assert bool(store.blobs) == bool(plain)


def end(chunks: Chunks, bucket: int, which: int) -> None:
    chunk = chunks[bucket]
    del chunk[sorted(chunk)[which % len(chunk)]]
    if chunk:
        chunks[bucket] = chunk
    else:
        del chunks[bucket]


def test_adding_to_a_chunk_does_not_read_it() -> None:
    store = Store()
    first = StoredChunks(store)
    for offset in range(1_000):
        first.add(7, entry(offset))
    first.save()

    store.read_bytes = 0
    second = StoredChunks(store)
    second.add(7, entry(1_000))
    second.save()

    assert store.read_bytes == 1
    assert len(StoredChunks(store)[7]) == 1_001


def test_a_chunk_of_many_pieces_becomes_one_again() -> None:
    store = Store()
    for offset in range(10 * PIECES):
        chunks = StoredChunks(store)
        chunks.add(7, entry(offset))
        chunks.save()

        assert len(store.blobs) <= PIECES

    assert sorted(StoredChunks(store)[7]) == list(range(10 * PIECES))


def idle_sources(number: int) -> tuple[Store, Sources]:
    """So many sources in a store, all of them put aside."""
    store, sources = Store(), Sources()
    shelves = sources.aside = StoredShelves(store)
    for each in range(number):
        stream = (each.to_bytes(16, "big"), 0, f"queue-{each}", "")
        sources[stream] = Claimed(0, Runs([(0, each + 1)]))
    sources.put_aside(IDLE_MS, lambda stream, epoch: False)
    shelves.save()
    store.read_bytes = 0
    return store, sources


def test_a_source_that_was_put_aside_is_fetched_with_few_others() -> None:
    store, sources = idle_sources(2_000)
    stream = ((7).to_bytes(16, "big"), 0, "queue-7", "")
    everything = sum(map(len, store.blobs.values()))

    shelves = sources.aside = StoredShelves(store)
    found = sources.touch(stream, 5)

    assert found == Claimed(0, Runs([(0, 8)]), 5)
    assert 0 < store.read_bytes < everything / 50
    assert (len(sources), sources.number_aside, list(sources.near)) == (2_000, 1_999, [stream])
    shelves.save()
    sources.aside = StoredShelves(store)
    assert len(set(sources)) == 2_000
