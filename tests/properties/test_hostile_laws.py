"""Laws for what nobody who means well writes: any bytes are a value or a typed error, and what
decodes stops nobody further on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marq.core.catalog.definitions import QueueDefinition
from marq.core.fate import redelivery
from marq.core.fate.redelivery import Context, Outcome
from marq.core.fold import batch, snapshot
from marq.core.fold.fold import Record, fold
from marq.core.fold.overdue import Due, Overdue
from marq.core.fold.state import State
from marq.core.markers import codec
from marq.core.markers.marker import Action, ClaimId, Marker, Parked, ParkedRef, Source, Tick
from marq.core.messages import header
from marq.core.messages.stored import Stored, is_void
from marq.errors import MarkerError
from marq.groups import records
from tests.hostile.forging import NUMBERS, Forger, marq_header
from tests.properties.effort import tried
from tests.properties.hold_log import START_MS, blobs, restored

seeds = st.integers(0, 1 << 32)
NOT_OURS = (MarkerError, snapshot.StaleSnapshot)


# The fold.


def forged(chance: Random) -> Iterator[Marker | Parked | None]:
    """What a hold log may say to a reader, whoever writes to it."""
    forger = Forger(chance, "orders", bytes(16))
    while True:
        body: Marker | Parked | None = Tick()
        with contextlib.suppress(MarkerError):
            match chance.randint(0, 9):
                case 0 | 1 | 2:
                    body = header.parked(header.decode(marq_header(chance, "orders")[0]))
                case 3:
                    body = None
                case _:
                    body = codec.decode(forger.marker()[0])
        yield body


@tried(2)
@given(seeds)
def test_no_log_stops_the_fold_nor_what_comes_after_it(seed: int) -> None:
    chance, state, at_ms = Random(seed), State(), START_MS
    bodies = forged(chance)
    for offset in range(40):
        at_ms += chance.choice((0, 1, 500, 2_100, 20_000))
        fold(state, [Record(offset, at_ms, next(bodies))])
        if chance.random() < 0.2:
            found = batch.conclude(state, offset, caught_up=True)
            assert batch.decode(batch.encode(found)) == found
            assert blobs(restored(state)) == blobs(state)
            if found.restate:
                codec.decode(found.restate)


# What becomes of a message.


def forged_record(chance: Random) -> Stored:
    name = chance.choice(("orders", "marq.delayed", "dlq.orders"))
    said = (header.NAME, marq_header(chance, "orders")[0])
    errors = (f"__dlq.errors.{chance.choice(('delivery.count', 'message'))}", b"9" * 5_000)
    headers: Any = (said, *chance.sample((errors, ("h", None), said), chance.randint(0, 2)))
    return Stored(name, 0, chance.choice(NUMBERS[:-2]), START_MS, None, b"x", headers)


def fates(chance: Random, record: Stored) -> Iterator[Callable[[], Outcome]]:
    """All that may become of it."""
    number = chance.choice(NUMBERS[:9])
    definition = chance.choice(
        (None, QueueDefinition(), QueueDefinition(purged={"orders:0": number, "marq.delayed:0": 1}))
    )
    context = Context("orders", definition, START_MS + 1, chance.random())
    overdue = Overdue(
        source=Source(bytes(16), 0, "orders", "", 0),
        offset=record.offset,
        names=((ClaimId(1, 1), 0),),
        action=chance.choice((Action.EXPIRE, Action.REDELIVER, Action.BURY)),
        deadline_ms=START_MS,
        ahead_ms=0,
        attempt=number,
        kept_alive=chance.random() < 0.5,
        reason=chance.choice(("", "\ud800", "y" * 1_000)),
    )
    due = Due(ParkedRef(START_MS, record.offset), Action.RELEASE, START_MS, 0, "", "orders")
    yield lambda: redelivery.resolve(overdue, record, context)
    yield lambda: redelivery.release(due, record, 0, context)
    yield lambda: redelivery.gone(overdue, context)
    yield lambda: redelivery.buried(record, context, overdue.reason)


@tried(5)
@given(seeds)
def test_whatever_a_header_says_there_is_a_record_for_what_becomes_of_it(seed: int) -> None:
    chance = Random(seed)
    record = forged_record(chance)

    for number in range(3):  # copies of copies, dead letters of dead letters
        found = [fate() for fate in fates(chance, record)]
        outgoing = [each.record for each in found if each.record is not None]
        outgoing += [redelivery.redriven(record, 0), redelivery.given_back(record, "orders", 2)]
        for each in outgoing:
            told = Stored("orders", 0, 1, START_MS, each.key, each.value, each.headers)
            meta, theirs = header.split(told.headers)
            assert header.split(header.join(meta, theirs))[0] == meta
            assert len(told.message_id()) < 2_000
            is_void(told, {"orders:0": 1})
            redelivery.reason_of(told).encode()
            redelivery.attempts_of(told)
        chosen = outgoing[chance.randrange(len(outgoing))]
        record = Stored(chosen.topic, 0, number, START_MS, chosen.key, chosen.value, chosen.headers)


# Any bytes.

pieces = st.sampled_from(
    [*b'{ } [ ] " : , null -1 1e999 \\ud800 "record" "hold" "n"'.split(), b"\xff"]
)
json_like = st.lists(pieces, max_size=30).map(b"".join)
deep = st.sampled_from([b"[" * 100_000, b'{"record":"hold","more":' + b"[" * 100_000])


@st.composite
def changed(draw: st.DrawFn, valid: bytes) -> bytes:
    """A valid encoding with some bytes changed, cut or added."""
    data = bytearray(valid)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=3) | pieces)
    return bytes(data)


LEASE = records.LeaseBeat("m", "c", "i")
CONTROL = records.encode(records.HoldingRecord("c", 1, "m", "p", (1, 2), 3))


@given(st.binary() | json_like | deep | changed(CONTROL))
def test_any_bytes_in_the_logs_of_a_group_are_a_record_or_none(value: bytes) -> None:
    records.decode(value)
    records.decode_lease(value)


@given(seeds, st.data())
def test_any_bytes_of_a_state_are_a_state_or_a_typed_error(seed: int, data: st.DataObject) -> None:
    chance, state = Random(seed), State()
    bodies = forged(chance)
    fold(state, [Record(offset, START_MS + offset, next(bodies)) for offset in range(10)])
    blob = data.draw(st.binary() | changed(snapshot.dump(state)))

    with contextlib.suppress(*NOT_OURS):
        snapshot.load(blob)
    chunk = next(iter(state.parked.chunks.values()), {})
    with contextlib.suppress(*NOT_OURS):
        snapshot.load_chunk(data.draw(st.binary() | changed(snapshot.dump_chunk(chunk))))


BATCH = batch.encode(batch.conclude(State(), 0, caught_up=True))


@given(st.binary() | changed(BATCH))
def test_any_bytes_of_a_batch_are_a_batch_or_a_typed_error(value: bytes) -> None:
    with contextlib.suppress(msgspec.MsgspecError):
        batch.decode(value)


def test_what_is_no_state_at_all_is_told_apart() -> None:
    with pytest.raises(NOT_OURS):
        snapshot.load(b"")
