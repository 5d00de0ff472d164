"""What a batch of one hold-log partition costs the pure fold: thousands of queues, hundreds of
workers. No broker, no Spark: what is here grows with what a batch says, or it is told.

    python -m bench.fold_scale

A world of sources that were used once; of workers, each with claims of its own that it beats; and
of batches half a second long. Each figure is CPU on one core, the median of some batches.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import astuple
from rich.console import Console
from rich.table import Table

from marq.core.fold import batch, restate, snapshot
from marq.core.fold.fold import Record, fold
from marq.core.fold.state import State
from marq.core.markers import bits, codec
from marq.core.markers.marker import (
    Begun,
    Claim,
    ClaimId,
    KeepAlive,
    Marker,
    Progress,
    Source,
    Step,
    Tick,
)
from marq.spark.stored import StoredShelves

BATCH_MS = 500
CLAIMS_EACH = 4
"""Open claims of a worker."""
BATCHES = 7
SIZES = ((100, 5), (1_000, 50), (10_000, 50), (10_000, 500))
"""Sources ever used, and workers."""


class Row(Struct, frozen=True):
    """What one batch costs."""

    load_ms: float
    fold_ms: float
    conclude_ms: float
    save_ms: float
    state_kb: float
    row_kb: float

    @property
    def all_ms(self) -> float:
        return self.load_ms + self.fold_ms + self.conclude_ms + self.save_ms


class Store:
    """The fold's state as a state store has it."""

    def __init__(self) -> None:
        self.blob = snapshot.dump(State())
        self._shelves: dict[tuple[int], tuple[bytes]] = {}
        self.getValue = self._shelves.get  # as Spark's map is called
        self.removeKey = self._shelves.pop
        self.updateValue = self._shelves.__setitem__

    def load(self) -> State:
        state = snapshot.load(self.blob)
        state.claimed.aside = StoredShelves(self)
        return state

    def save(self, state: State) -> bytes:
        assert isinstance(state.claimed.aside, StoredShelves)
        self.blob = snapshot.dump(state)
        state.claimed.aside.save()
        return self.blob


class World:
    """A hold-log partition, and a state store for its fold."""

    def __init__(self, sources: int, workers: int) -> None:
        self._sources = [_source(number) for number in range(sources)]
        self._workers = workers
        self._offsets, self._at_ms = count(), 1_700_000_000_000
        self._sequence = count()
        self._open: dict[int, list[Claim]] = {worker: [] for worker in range(workers)}
        self.store = Store()
        self._batch(self._used())
        self._batch(chain.from_iterable(self._claims(worker) for worker in range(workers)))
        for _ in range(2 * 60_000 // BATCH_MS):  # what is idle is known to be
            self._batch(self.beats())

    def _used(self) -> Iterator[Marker]:
        """Every source was claimed from, and all of it was acked."""
        for source in self._sources:
            claim = Claim(ClaimId(1 << 32, next(self._sequence)), source, 0, ((0, 10),), 60_000)
            yield claim
            yield Progress((Step(claim.id, bits.span(0, 10)),))

    def _claims(self, worker: int, number: int = CLAIMS_EACH) -> Iterator[Marker]:
        """The worker takes messages of that many sources."""
        for _ in range(number):
            sequence = next(self._sequence)
            source = self._sources[(worker * CLAIMS_EACH + sequence) % self._busy]
            claim = Claim(
                ClaimId(worker, sequence), source, sequence * 10, ((sequence * 10, 10),), 60_000
            )
            self._open[worker].append(claim)
            yield claim
            yield Progress((Step(claim.id, 0, (Begun(bits.span(0, 10), 60_000, 1, True, 0),)),))

    @property
    def _busy(self) -> int:
        return min(len(self._sources), self._workers * CLAIMS_EACH)

    def ticks(self) -> Iterator[Marker]:
        """Nothing is heard but time."""
        return iter(())

    def beats(self) -> Iterator[Marker]:
        """Each worker is heard of."""
        for worker, claims in self._open.items():
            yield KeepAlive(worker, tuple(claim.id.sequence for claim in claims))

    def work(self) -> Iterator[Marker]:
        """Each worker is done with a claim and takes the next one."""
        for worker, claims in self._open.items():
            yield Progress((Step(claims.pop(0).id, bits.span(0, 10)),))
            yield from self._claims(worker, 1)

    def _records(self, markers: Iterable[Marker]) -> list[Record]:
        self._at_ms += BATCH_MS
        return [Record(next(self._offsets), self._at_ms, each) for each in (*markers, Tick())]

    def _batch(self, markers: Iterable[Marker]) -> Row:
        records = self._records(markers)
        took: list[float] = []
        state = _timed(took, self.store.load)
        start = state.next_offset
        _timed(took, lambda: fold(state, records))
        found = _timed(took, lambda: batch.conclude(state, start, caught_up=False))
        blob = _timed(took, lambda: self.store.save(state))
        row = batch.encode(found)
        load_ms, fold_ms, conclude_ms, save_ms = took
        sizes = len(blob) / 1e3, len(row) / 1e3
        return Row(load_ms, fold_ms, conclude_ms, save_ms, *sizes)

    def cost(self, markers: Callable[[], Iterable[Marker]]) -> Row:
        """The median of some batches."""
        rows = [self._batch(markers()) for _ in range(BATCHES)]
        columns = zip(
            *((getattr(row, name) for name in Row.__struct_fields__) for row in rows), strict=True
        )
        return Row(*map(statistics.median, columns))

    def restating_ms(self) -> tuple[float, float]:
        """What it costs to write everything down, and to read it."""
        state = self.store.load()
        took: list[float] = []
        said = _timed(took, lambda: restate.restatement(state))
        encoded = [codec.encode(part) for part in restate.parts(said, *restate.SIZES[0])]
        records = self._records(map(codec.decode, encoded))
        _timed(took, lambda: fold(state, records))
        return took[0], took[1]


T = TypeVar("T")


def _timed(took: list[float], step: Callable[[], T]) -> T:
    began = time.process_time()
    found = step()
    took.append((time.process_time() - began) * 1e3)
    return found


def _source(number: int) -> Source:
    return Source(number.to_bytes(16, "big"), number % 4, f"queue-{number}", "", 0)


COLUMNS = ("sources", "workers", "batch", "load", "fold", "conclude", "save", "all", "state", "row")


def main() -> None:
    """Print a row for each world and kind of batch."""
    table = Table(title="a batch of one hold-log partition: ms of CPU, kB of its state and report")
    for name in COLUMNS:
        table.add_column(name, justify="left" if name == "batch" else "right")
    for sources, workers in SIZES:
        world, about = World(sources, workers), (f"{sources:,}", f"{workers:,}")
        for kind in (world.ticks, world.beats, world.work):
            row = world.cost(kind)
            *took, state_kb, row_kb = astuple(row)
            figures = (*took, row.all_ms, state_kb, row_kb)
            table.add_row(*about, kind.__name__, *(f"{each:.1f}" for each in figures))
        made_ms, read_ms = world.restating_ms()
        table.add_row(*about, "restating", "", f"{read_ms:.1f}", f"{made_ms:.1f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
