"""Parked messages in a state store: the same as in memory, with few reads."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from hypothesis import given
from hypothesis import strategies as st

from marq.core.fold.parked import Chunks, ParkedEntry
from marq.core.markers.marker import Action, ParkedRef
from marq.spark.stored import PIECES, StoredChunks


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
