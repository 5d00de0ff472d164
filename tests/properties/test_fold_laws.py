"""Laws of the fold, for any log: it is what the slow reference says, however it is cut."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from marq.core.fold.fold import Record, fold
from marq.core.fold.overdue import Due, Event, emit, next_lapse_ms
from marq.core.fold.parked import Chunks
from marq.core.fold.restate import needed_from, restatement
from marq.core.fold.state import State
from marq.core.markers import claimed
from marq.core.markers.marker import Claim, ClaimId, Marker, ParkedRef, Restate, Restated, Tick
from tests.properties import markers
from tests.properties.any_log import AnyLog
from tests.properties.chance import Chance, chances
from tests.properties.effort import tried
from tests.properties.hold_log import START_MS, Blobs, blobs, restored
from tests.properties.reference import Lease, Message, Reference, Waiting

CAPS = (1_000, 1, 2, 3)


class Both:
    """A log folded by the product and by the reference, batch by batch."""

    def __init__(self, chance: Chance) -> None:
        self.chance = chance
        self.log = AnyLog(chance)
        self.state, self.reference = State(), Reference()

    def batch(self) -> None:
        """Some records more."""
        records = [self.log.write() for _ in range(1 + self.chance.below(6))]
        fold(self.state, records)
        for record in records:
            self.reference.read(record)

    def emit(self) -> list[Event]:
        """What both emit: the reference says what may come, the product chooses among equals."""
        cap = self.chance.pick(CAPS)
        awaited = self.reference.overdue()
        events = emit(self.state, cap)
        assert_emitted(events, awaited, cap, self.reference)
        self.reference.marked |= {message_of(event) for event in events}
        return events


def message_of(event: Event) -> Message | ParkedRef:
    return event.ref if isinstance(event, Due) else (event.source, event.offset)


def assert_emitted(
    events: Sequence[Event], awaited: dict[Message | ParkedRef, int], cap: int, said: Reference
) -> None:
    messages = [message_of(event) for event in events]
    lapses = [event.lapse_ms for event in events]
    missed = [lapse for message, lapse in awaited.items() if message not in messages]

    assert set(messages) <= set(awaited), "something was emitted that is not overdue, or twice"
    assert len(messages) == len(set(messages)) == min(cap, len(awaited))
    assert lapses == [awaited[message] for message in messages]
    assert lapses == sorted(lapses), "not the oldest first"
    assert not missed or not lapses or lapses[-1] <= min(missed), "an older one had to wait"
    for event in events:
        assert_said(event, said)


def assert_said(event: Event, reference: Reference) -> None:
    if isinstance(event, Due):
        waiting = reference.parked[event.ref]
        said = (event.action, event.tries, event.reason)
        assert said == (waiting.action, waiting.tries, waiting.reason)
        assert (event.half is not None) == waiting.is_half
        if event.half is not None:
            assert event.half.unknown == len(waiting.unknown)
        return
    message = (event.source, event.offset)
    claim, lease = reference.speaks(message)
    names = {(name, reference.offsets[name].index(message)) for name in reference.open[message]}
    assert event.names[0][0] == claim, "another claim speaks for it"
    assert set(event.names) == names
    assert (event.deadline_ms, event.ahead_ms) == (lease.deadline, lease.ahead)
    decisive = reference.decides(message)
    assert (event.attempt, event.kept_alive) == (reference.attempt(message), lease.kept_alive)
    assert (event.action, event.reason) == (decisive.action, decisive.reason)


def open_leases(state: State) -> dict[Message, dict[ClaimId, Lease]]:
    """What is open, message by message."""
    found: dict[Message, dict[ClaimId, Lease]] = {}
    for claim in state.claims.values():
        for part in claim.parts:
            for _, offset in claimed.numbered(claim.runs, part.indexes):
                leases = found.setdefault((claim.source, offset), {})
                assert claim.id not in leases, "a message stands twice in one claim"
                leases[claim.id] = Lease(
                    part.deadline_ms, part.ahead_ms, part.lease_ms, part.attempt,
                    part.kept_alive, part.action, part.reason,
                )  # fmt: skip
    return found


def waiting(state: State) -> dict[ParkedRef, Waiting]:
    return {
        entry.ref: Waiting(
            entry.due_ms,
            entry.ahead_ms,
            entry.action,
            entry.tries,
            entry.reason,
            entry.half is not None,
            {each.attempt: each.reason for each in entry.half.said} if entry.half else {},
        )
        for entry in state.parked
    }


@tried(10)
@given(chances(900))
def test_the_fold_is_what_the_reference_says(chance: Chance) -> None:
    both = Both(chance)
    while chance.left():
        both.batch()
        state, reference = both.state, both.reference

        assert open_leases(state) == reference.open
        assert waiting(state) == reference.parked
        assert (state.clock_ms, state.lease_clock_ms) == (reference.clock, reference.lease_clock)
        assert state.skipped == reference.skipped

        both.emit()
        match chance.below(6):
            case 0 | 3:
                both.log.restate(state)
            case 5:
                both.log.forget(state)


@tried(3)
@given(chances(600))
def test_the_next_lapse_is_never_later_than_what_is_emitted_next(chance: Chance) -> None:
    both = Both(chance)
    while chance.left():
        both.batch()
        both.emit()
        reference = both.reference
        lapses = [reference.speaks(m)[1].lapse for m in reference.open if m not in reference.marked]
        lapses += [w.lapse for ref, w in reference.parked.items() if ref not in reference.marked]

        said = next_lapse_ms(both.state)

        if said is None:
            assert not lapses
        else:
            assert said <= min(lapses, default=said)


def written(chance: Chance) -> list[Record]:
    """A log with the restatements a tracker wrote into it."""
    log, state = AnyLog(chance), State()
    while chance.left():
        fold(state, [log.write()])
        match chance.below(16):
            case 7 | 15:
                log.restate(state)
            case 14:
                log.forget(state)
    return log.records


def unmarked(state: State) -> Blobs:
    """The state as if nothing had been emitted, nor moved to narrower chunks for it."""
    bare = restored(state)
    for claim in bare.claims.values():
        claim.marked = 0
    parked = bare.parked
    together = {entry.ref.offset: replace(entry, marked=False) for entry in parked}
    assert len(parked) == len(together), "what is known of chunks is not what is in them"
    parked.chunks = Chunks({0: dict(sorted(together.items()))})
    parked.index.clear()
    return blobs(bare)


@tried(3)
@given(chances(500), st.lists(st.integers(1, 20), min_size=1), st.sampled_from(CAPS))
def test_the_fold_does_not_depend_on_how_the_log_is_cut(
    chance: Chance, sizes: list[int], cap: int
) -> None:
    records = written(chance)
    whole = fold(State(), records)

    cut, at = State(), 0
    for size in sizes * len(records):
        fold(cut, records[at : at + size])
        emit(cut, cap)
        at += size
        if at >= len(records):
            break

    assert unmarked(cut) == unmarked(whole)


@tried(3)
@given(chances(500), st.integers(1, 30))
def test_records_read_twice_change_nothing(chance: Chance, back: int) -> None:
    records = written(chance)
    once, twice = State(), State()
    for at, record in enumerate(records):
        fold(once, [record])
        fold(twice, records[max(0, at - back) : at + 1])

    assert blobs(twice) == blobs(once)


@tried(3)
@given(chances(500), st.sampled_from(CAPS))
def test_putting_the_state_away_between_any_two_batches_changes_nothing(
    chance: Chance, cap: int
) -> None:
    records = written(chance)
    kept, put_away = State(), State()
    for record in records:
        fold(kept, [record])
        put_away = fold(restored(put_away), [record])

        assert emit(put_away, cap) == emit(kept, cap)

    assert blobs(put_away) == blobs(kept)


@tried(3)
@given(chances(500))
def test_a_restatement_changes_nothing_that_is_open(chance: Chance) -> None:
    records = written(chance)
    state = fold(State(), records)
    before = (open_leases(state), waiting(state), list(state.claimed.items()))
    later = [Record(len(records), state.clock_ms, restatement(state, older_than_ms=0))]

    fold(state, later)

    assert (open_leases(state), waiting(state), list(state.claimed.items())) == before
    assert all(claim.stated_at == len(records) for claim in state.claims.values())


@tried(3)
@given(chances(500), st.integers(0, 100))
def test_what_is_below_the_offset_needed_is_not_needed(chance: Chance, percent: int) -> None:
    records = written(chance)
    middle = len(records) * percent // 100
    state = fold(State(), records[:middle])
    start = needed_from(state)

    opened = {claim.id for claim in state.claims.values()}
    stated = {
        name.id
        for record in records[start:middle]
        for name in stated_by(record)
        if name.id in opened
    }

    assert opened <= stated
    assert all(entry.ref.offset >= start for entry in state.parked)


def stated_by(record: Record) -> Sequence[Claim | Restated]:
    match record.body:
        case Claim() as claim:
            return [claim]
        case Restate(claims=claims):
            return claims
        case _:
            return []


@given(st.lists(st.tuples(markers.markers, st.integers(0, 9_000)), max_size=12))
def test_no_markers_whatever_break_the_fold(said: list[tuple[Marker, int]]) -> None:
    state, at_ms = State(), START_MS
    for offset, (body, step) in enumerate(said):
        at_ms += step
        fold(state, [Record(offset, at_ms, body)])
        emit(state, 10)
        restatement(state)
    fold(state, [Record(len(said), at_ms + 10_000, Tick())])

    assert blobs(restored(state)) == blobs(state)
