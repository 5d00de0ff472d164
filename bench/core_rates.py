"""How fast the pure core is on one core: the codec, and the fold with and without decoding.

    python -m bench.core_rates

A row is one figure: how many things per second, in the best of a few rounds (the machine is
shared; the best round is the one least disturbed).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from itertools import chain

import msgspec
from rich.console import Console
from rich.table import Table

from marq.core.fold.fold import Record, fold
from marq.core.fold.snapshot import dump, load
from marq.core.fold.state import State
from marq.core.markers import bits, codec
from marq.core.markers.marker import Claim, ClaimId, Marker, Progress, Source, Step

PACKED = 500
"""Messages of a claim."""
CLAIMS = 400
"""Claims of a round; as many are open at a time as a busy partition has."""
OPEN = 20
ROUNDS = 5
WORKER = 0x0123456789ABCDEF
SOURCE = Source(bytes(range(16)), 0, "orders", "", 0)
START_MS = 1_700_000_000_000


class Row(msgspec.Struct, frozen=True):
    """One figure."""

    name: str
    rate: float
    unit: str
    bytes_each: float = 0.0


def claim(sequence: int) -> Claim:
    """The n-th claim of a worker, 500 messages in one run."""
    first = sequence * PACKED
    return Claim(ClaimId(WORKER, sequence), SOURCE, first, ((first, PACKED),), 11_000)


def acked_in_one_run(sequence: int) -> list[Progress]:
    """All messages of a claim acked by one record."""
    return [Progress((Step(ClaimId(WORKER, sequence), bits.span(0, PACKED)),))]


def acked_scattered(sequence: int, records: int = 5) -> list[Progress]:
    """All messages of a claim acked in random order over several records."""
    order = random.Random(sequence).sample(range(PACKED), PACKED)
    share = PACKED // records
    parts = [order[at : at + share] for at in range(0, PACKED, share)]
    return [Progress((Step(ClaimId(WORKER, sequence), bits.of(part)),)) for part in parts]


def log(acked: Callable[[int], list[Progress]]) -> list[Marker]:
    """Claims and the acks of the claim so many before, as they lie in a hold log."""
    written: list[Marker] = []
    for sequence in range(CLAIMS + OPEN):
        if sequence < CLAIMS:
            written.append(claim(sequence))
        if sequence >= OPEN:
            written += acked(sequence - OPEN)
    return written


def measure() -> list[Row]:
    """All figures."""
    one_run, scattered = log(acked_in_one_run), log(acked_scattered)
    return [
        *_folded("acks in one run", one_run),
        *_folded("acks scattered", scattered),
        *_coded("claim", [claim(sequence) for sequence in range(CLAIMS)]),
        *_coded("progress, one run", list(chain(*map(acked_in_one_run, range(CLAIMS))))),
        *_coded("progress, scattered", list(chain(*map(acked_scattered, range(CLAIMS))))),
        _snapshot(),
    ]


def _folded(name: str, markers: list[Marker]) -> list[Row]:
    encoded = [codec.encode(marker) for marker in markers]
    messages = CLAIMS * PACKED
    from_bytes = _best(lambda: _fold(map(codec.decode, encoded)))
    from_markers = _best(lambda: _fold(markers))
    size = sum(map(len, encoded)) / messages
    return [
        Row(f"decode + fold, {name}", messages / from_bytes, "acked messages/s", size),
        Row(f"fold, {name}", messages / from_markers, "acked messages/s", size),
    ]


def _fold(markers: Iterable[Marker]) -> None:
    records = (Record(offset, START_MS + offset, body) for offset, body in enumerate(markers))
    state = fold(State(), records)
    assert not state.claims, "everything was acked"


def _coded(name: str, markers: list[Marker] | list[Claim] | list[Progress]) -> list[Row]:
    encoded = [codec.encode(marker) for marker in markers]
    size = sum(map(len, encoded)) / len(encoded)
    write = _best(lambda: [codec.encode(marker) for marker in markers])
    read = _best(lambda: [codec.decode(data) for data in encoded])
    return [
        Row(f"encode {name}", len(markers) / write, "records/s", size),
        Row(f"decode {name}", len(markers) / read, "records/s", size),
    ]


def _snapshot() -> Row:
    """Putting a state away and getting it back, as every micro-batch does."""
    records = [Record(n, START_MS + n, claim(n)) for n in range(CLAIMS)]
    state = fold(State(), records)
    blob = dump(state)
    took = _best(lambda: load(dump(state)))
    return Row("dump + load, all open", CLAIMS / took, "claims/s", len(blob) / CLAIMS)


def _best(work: Callable[[], object]) -> float:
    """Seconds of the fastest round."""
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def main() -> None:
    rows = measure()
    table = Table("what", "per second", "of", "bytes each", title="marq core, one core")
    for row in rows:
        table.add_row(row.name, f"{row.rate:,.0f}", row.unit, f"{row.bytes_each:.2f}")
    Console(width=100).print(table)
    print(msgspec.json.encode({"core_rates": rows}).decode())


if __name__ == "__main__":
    main()
