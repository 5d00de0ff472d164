"""A hold log for tests: records are said in words, times stand in the records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from marq.core.fold.fold import GRACE_MS, Record, fold
from marq.core.fold.overdue import LIMIT, Due, Overdue, emit
from marq.core.fold.snapshot import (
    dump,
    dump_chunk,
    dump_shelf,
    load,
    load_chunk,
    load_shelf,
)
from marq.core.fold.state import State
from marq.core.markers import bits, claimed
from marq.core.markers.marker import (
    Action,
    Begun,
    Claim,
    ClaimId,
    Held,
    HeldParked,
    Hold,
    KeepAlive,
    Marker,
    Parked,
    ParkedRef,
    Progress,
    Source,
    Step,
    Tick,
)

ORDERS = Source(bytes(range(16)), 0, "orders", "", 0)
START_MS = 1_000_000
"""Times in a log count from here: time 0 of a test is long after time 0 of the world."""


def runs_of(offsets: Iterable[int]) -> claimed.ClaimedRuns:
    """The runs these offsets make."""
    return tuple(bits.runs(bits.of(offsets)))


class MarkersLog:
    """Records in offset order; the first tick lies so far back that no grace is left at 0."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._claims: dict[ClaimId, Claim] = {}
        self.ticks(range(-GRACE_MS - 1_000, 0, 1_000))

    def append(self, body: Marker | Parked | None, at: int) -> int:
        """The offset at which it now stands."""
        self.records.append(Record(len(self.records), START_MS + at, body))
        return len(self.records) - 1

    def again(self, offset: int, at: int) -> int:
        """The record at this offset lands a second time."""
        return self.append(self.records[offset].body, at)

    def tick(self, at: int) -> None:
        self.append(Tick(), at)

    def ticks(self, times: Iterable[int]) -> None:
        for at in times:
            self.tick(at)

    def ticks_to(self, end: int) -> None:
        """Ticks up to this time, close enough that the clock never jumps."""
        last = self.records[-1].at_ms - START_MS
        self.ticks((*range(last + 1_000, end, 1_000), end))

    def claim(
        self,
        offsets: Iterable[int],
        lease_ms: int = 1_000,
        at: int = 0,
        worker: int = 1,
        source: Source = ORDERS,
        start: int | None = None,
    ) -> ClaimId:
        runs = runs_of(offsets)
        name = ClaimId(worker, len(self._claims))
        claim = Claim(name, source, runs[0][0] if start is None else start, runs, lease_ms)
        self._claims[name] = claim
        self.append(claim, at)
        return name

    def indexes(self, claim: ClaimId, offsets: Iterable[int]) -> int:
        """The indexes by which the claim knows these offsets."""
        runs = self._claims[claim].runs
        mask = 0
        for offset in offsets:
            mask |= claimed.indexes(runs, offset, offset + 1)
        return mask

    def begun(
        self,
        claim: ClaimId,
        offsets: Iterable[int],
        *,
        at: int,
        lease_ms: int = 1_000,
        attempt: int = 1,
        kept_alive: bool = False,
        ahead_ms: int = 0,
    ) -> int:
        begun = Begun(self.indexes(claim, offsets), lease_ms, attempt, kept_alive, ahead_ms)
        return self.append(Progress((Step(claim, 0, (begun,)),)), at)

    def acked(self, claim: ClaimId, offsets: Iterable[int], at: int) -> int:
        return self.append(Progress((Step(claim, self.indexes(claim, offsets)),)), at)

    def beat(self, *claims: ClaimId, at: int) -> int:
        return self.append(KeepAlive(claims[0].worker, tuple(c.sequence for c in claims)), at)

    def hold(
        self,
        claim: ClaimId,
        offsets: Iterable[int],
        action: Action,
        *,
        at: int,
        after_ms: int = 0,
        ahead_ms: int = 0,
        reason: str = "",
        by_tracker: bool = False,
    ) -> int:
        mask = self.indexes(claim, offsets)
        held = Held(claim, mask, action, after_ms, ahead_ms, reason)
        return self.append(Hold((held,), by_tracker=by_tracker), at)

    def park(
        self, at: int, delay_ms: int, ahead_ms: int = 0, action: Action = Action.RELEASE
    ) -> ParkedRef:
        offset = self.append(Parked(0, delay_ms, ahead_ms, action), at)
        return ParkedRef(START_MS + at + delay_ms, offset)

    def hold_parked(
        self,
        ref: ParkedRef,
        action: Action,
        at: int,
        after_ms: int = 0,
        reason: str = "",
        by_tracker: bool = False,
    ) -> int:
        held = HeldParked(ref, action, after_ms, reason=reason)
        return self.append(Hold(parked=(held,), by_tracker=by_tracker), at)

    def cancel(self, ref: ParkedRef, at: int) -> int:
        return self.hold_parked(ref, Action.CANCEL, at)

    def released(self, ref: ParkedRef, at: int) -> int:
        return self.append(Progress(parked=(ref,)), at)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def folded(self) -> State:
        """The state after all of it."""
        return fold(State(), self.records)


Blobs = tuple[bytes, dict[int, bytes], dict[int, bytes]]
"""A state as a state store keeps it: what is at work, chunks, shelves."""


def blobs(state: State) -> Blobs:
    """All that the state is, as bytes: equal states give equal bytes."""
    chunks = {bucket: dump_chunk(chunk) for bucket, chunk in state.parked.chunks.items()}
    shelves = {number: dump_shelf(shelf) for number, shelf in state.claimed.aside.items()}
    return dump(state), chunks, shelves


def loaded(written: Blobs) -> State:
    """The state these bytes are."""
    blob, chunks, shelves = written
    return load(
        blob,
        {bucket: load_chunk(chunk) for bucket, chunk in chunks.items()},
        {number: load_shelf(shelf) for number, shelf in shelves.items()},
    )


def restored(state: State) -> State:
    """The state written down and read again."""
    return loaded(blobs(state))


def open_offsets(state: State, source: Source = ORDERS) -> list[int]:
    """The offsets of the source that are open, under whatever claims."""
    found = {
        offset
        for claim in state.claims_of(source)
        for low, high in claimed.offsets(claim.runs, claim.open)
        for offset in range(low, high)
    }
    return sorted(found)


def overdue(state: State, limit: int = LIMIT) -> list[Overdue]:
    """What claimed messages the state emits."""
    return [event for event in emit(state, limit) if isinstance(event, Overdue)]


def due(state: State, limit: int = LIMIT) -> list[Due]:
    """What parked messages the state emits."""
    return [event for event in emit(state, limit) if isinstance(event, Due)]


def deadline(state: State, claim: ClaimId, index: int = 0) -> int:
    """When the lease of a claim's message is over, by the log's time in tests."""
    (part,) = [p for p in state.claims[claim].parts if p.indexes >> index & 1]
    return part.deadline_ms - START_MS
