"""Parked messages, and sources that are idle, in a state store: loaded on first touch, written once
a batch.

A store here is a map of Spark's, from a number to a blob.
"""

from __future__ import annotations

from typing import Any

from marq.core.fold import snapshot
from marq.core.fold.parked import Chunk, Chunks, ParkedEntry
from marq.core.fold.sources import Shelf, Shelves

PIECES = 32
"""A chunk is kept in so many pieces at most. What is added is a piece of its own: to write a chunk
anew for each message would cost what all messages in it cost."""


class StoredChunks(Chunks):
    """Chunks, each in one blob or several; how many there are stands in the place of the last."""

    def __init__(self, store: Any) -> None:
        super().__init__()
        self._store = store
        self._changed: set[int] = set()
        self._added: dict[int, Chunk] = {}
        """What is to be added to chunks that are not loaded."""

    def __getitem__(self, bucket: int) -> Chunk:
        if bucket not in self.data:
            chunk: Chunk = {}
            for number in range(self._pieces(bucket)):
                blob = _get(self._store, _place(bucket, number))
                assert blob is not None, "it was counted"
                chunk |= snapshot.load_chunk(blob)
            if bucket in self._added:
                chunk |= self._added.pop(bucket)
                self._changed.add(bucket)
            if not chunk:
                raise KeyError(bucket)
            self.data[bucket] = chunk
        return self.data[bucket]

    def __setitem__(self, bucket: int, chunk: Chunk) -> None:
        self.data[bucket] = chunk
        self._changed.add(bucket)

    def __delitem__(self, bucket: int) -> None:
        self[bucket] = {}

    def add(self, bucket: int, entry: ParkedEntry) -> None:
        if bucket in self.data:
            self.data[bucket][entry.ref.offset] = entry
            self._changed.add(bucket)
        else:
            self._added.setdefault(bucket, {})[entry.ref.offset] = entry

    def save(self) -> None:
        """Write what changed, and beside the rest what was added to it."""
        for bucket in list(self._added):
            pieces = self._pieces(bucket)
            if pieces + 1 < PIECES:
                self._write(bucket, pieces, self._added.pop(bucket))
                self._count(bucket, pieces + 1)
            else:
                self[bucket]  # in one piece again
        for bucket in self._changed:
            chunk, pieces = self.data[bucket], self._pieces(bucket)
            for number in range(1 if chunk else 0, pieces):
                _put(self._store, _place(bucket, number), None)
            if chunk:
                self._write(bucket, 0, chunk)
            self._count(bucket, 1 if chunk else 0, pieces)

    def _write(self, bucket: int, number: int, chunk: Chunk) -> None:
        _put(self._store, _place(bucket, number), snapshot.dump_chunk(chunk))

    def _pieces(self, bucket: int) -> int:
        blob = _get(self._store, _place(bucket, PIECES))
        return blob[0] if blob else 0

    def _count(self, bucket: int, pieces: int, before: int = -1) -> None:
        if pieces != before:
            _put(self._store, _place(bucket, PIECES), bytes((pieces,)) if pieces else None)


class StoredShelves(Shelves):
    """Shelves, each in one blob."""

    def __init__(self, store: Any) -> None:
        super().__init__()
        self._store = store
        self._changed: set[int] = set()

    def __missing__(self, number: int) -> Shelf:
        blob = _get(self._store, number)
        self.data[number] = {} if blob is None else snapshot.load_shelf(blob)
        return self.data[number]

    def __setitem__(self, number: int, shelf: Shelf) -> None:
        self.data[number] = shelf
        self._changed.add(number)

    def save(self) -> None:
        """Write what changed."""
        for number in self._changed:
            shelf = self.data[number]
            _put(self._store, number, snapshot.dump_shelf(shelf) if shelf else None)


def _place(bucket: int, number: int) -> int:
    return bucket * (PIECES + 1) + number


def _get(store: Any, number: int) -> bytes | None:
    found = store.getValue((number,))
    return None if found is None else bytes(found[0])


def _put(store: Any, number: int, blob: bytes | None) -> None:
    if blob is None:
        store.removeKey((number,))
    else:
        store.updateValue((number,), (blob,))
