"""The runs ever claimed of each source, be there thousands.

A batch is about few of them. What nothing was heard of for a while is put aside, on shelves that a
state store keeps and that are loaded on first touch: so it costs nothing until it is claimed from
again, or all is written down before the log is trimmed.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from itertools import chain
from zlib import crc32

from marq.core.markers.runs import Runs

Stream = tuple[bytes, int, str, str]
"""A source whatever its epoch: topic id, partition, queue, subscription."""

IDLE_MS = 60_000
"""After so long without a claim a source is put aside, if nothing of it is open."""
SHELVES = 256
"""It must never change: a source is looked for where it was put."""


@dataclass(slots=True)
class Claimed:
    """The runs ever claimed of a source; only its newest epoch can open anything."""

    epoch: int
    runs: Runs = field(default_factory=Runs)
    touched_ms: int = 0
    """When it was claimed from last."""


Shelf = dict[Stream, Claimed]


class Shelves(UserDict[int, Shelf]):
    """What was put aside, by the number of the shelf."""

    def __missing__(self, number: int) -> Shelf:
        return {}


class Sources(MutableMapping[Stream, Claimed]):
    """All of them; `near` are those at work."""

    def __init__(self) -> None:
        self.near: dict[Stream, Claimed] = {}
        self.aside = Shelves()
        self.number_aside = 0

    def touch(self, stream: Stream, now_ms: int) -> Claimed | None:
        """The source, which is at work again; only such a one may be altered."""
        found = self.near.get(stream) or self._fetched(stream)
        if found is not None:
            found.touched_ms = now_ms
        return found

    def put_aside(self, now_ms: int, is_open: Callable[[Stream, int], bool]) -> None:
        """Put aside what is idle; what is open is asked with the source's epoch."""
        by_ms = now_ms - IDLE_MS
        idle = [
            stream
            for stream, found in self.near.items()
            if found.touched_ms <= by_ms and not is_open(stream, found.epoch)
        ]
        for stream in idle:
            number = _shelf(stream)
            self.aside[number] = {**self.aside[number], stream: self.near.pop(stream)}
        self.number_aside += len(idle)

    def _fetched(self, stream: Stream) -> Claimed | None:
        found = self._on_shelf(stream)
        if found is not None:
            self._take_away(stream)
            self.near[stream] = found
        return found

    def _on_shelf(self, stream: Stream) -> Claimed | None:
        return self.aside[_shelf(stream)].get(stream) if self.number_aside else None

    def _take_away(self, stream: Stream) -> None:
        number = _shelf(stream)
        self.aside[number] = {s: found for s, found in self.aside[number].items() if s != stream}
        self.number_aside -= 1

    def __getitem__(self, stream: Stream) -> Claimed:
        found = self.near.get(stream) or self._on_shelf(stream)
        if found is None:
            raise KeyError(stream)
        return found

    def __setitem__(self, stream: Stream, found: Claimed) -> None:
        self._fetched(stream)
        self.near[stream] = found

    def __delitem__(self, stream: Stream) -> None:
        self._fetched(stream)
        del self.near[stream]

    def __iter__(self) -> Iterator[Stream]:
        shelves = range(SHELVES) if self.number_aside else ()
        return chain(self.near, *(self.aside[number] for number in shelves))

    def __len__(self) -> int:
        return len(self.near) + self.number_aside


def _shelf(stream: Stream) -> int:
    topic_id, partition, *_ = stream
    return crc32(topic_id + partition.to_bytes(8, "big")) % SHELVES
