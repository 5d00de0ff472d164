"""Markers to bytes and back: magic, version and kind, then varints.

    claim of 1,000 messages     about 55 bytes
    progress, 1,000 acked       about 16 bytes
    tick                        3 bytes

A record that is not ours is `NotAMarker` (skipped and counted), one of a newer version
`UnknownMarkerVersion` (stop: upgrade the tracker first), one that breaks off `MalformedMarker`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

from marq.core.markers import pieces
from marq.core.markers.marker import (
    Action,
    Begun,
    Check,
    Claim,
    ClaimId,
    EndedRuns,
    Forget,
    HalfAnswer,
    Held,
    HeldParked,
    Hold,
    KeepAlive,
    Marker,
    ParkedRef,
    Progress,
    Restate,
    Step,
    Tick,
)
from marq.core.markers.reason import cleaned
from marq.core.markers.wire import MAX_INDEX, WireReader, WireWriter
from marq.errors import MalformedMarker, NotAMarker, UnknownMarkerVersion

MAGIC = 0xA9
VERSION = 1

_CLAIM, _PROGRESS, _KEEP_ALIVE, _HOLD, _RESTATE, _TICK, _FORGET = range(1, 8)
_ANSWER = 9
_SINCE = {_ANSWER: 2}
"""By kind the oldest reader that may go on without it: who knew no half messages would skip what
was answered."""
_HEAD_BYTES = 3
_MAX_NAMED = 3 << 27  # messages named by one record: 48 MB as sets of indexes
_PARKED_ACTIONS = frozenset(Action) - {Action.EXPIRE}
_HELD_ACTIONS = _PARKED_ACTIONS - {Action.CANCEL}


def encode(marker: Marker) -> bytes:
    """The marker as bytes; equal markers give equal bytes.

    A `ValueError` for what `decode` would refuse: a claim that nobody can read is no claim, and
    its messages would be lost with their worker.
    """
    kind, write = _WRITERS[type(marker)]
    out = WireWriter(bytes((MAGIC, _SINCE.get(kind, VERSION), kind)))
    write(out, marker)
    return out.bytes()


def decode(data: bytes, most_named: int = _MAX_NAMED) -> Marker:
    """The marker these bytes are; a typed `MarkerError` if they are none, or name more messages
    than anyone may who writes to a log."""
    if not data or data[0] != MAGIC:
        raise NotAMarker("these bytes are not a marker of marq's")
    if len(data) < _HEAD_BYTES:
        raise MalformedMarker("the marker breaks off in its head")
    version, read = _SINCE.get(data[2], VERSION), _READERS.get(data[2])
    if data[1] > version:
        raise UnknownMarkerVersion(
            f"a marker of version {data[1]}, this is version {version}: upgrade the tracker first"
        )
    if data[1] != version or read is None:
        raise MalformedMarker(f"no marker has version {data[1]} and kind {data[2]}")
    reader = WireReader(data, _HEAD_BYTES, most_named)
    marker = read(reader)
    reader.end()
    return marker


# One pair for each kind.


def _put_claim(out: WireWriter, claim: Claim) -> None:
    pieces.put_claim_id(out, claim.id)
    pieces.put_claimed_source(out, claim.source)
    out.durations(claim.lease_ms)
    out.number(claim.start)
    pieces.put_offsets(out, claim.runs, claim.start)


def _claim(data: WireReader) -> Claim:
    claim, source = pieces.claim_id(data), pieces.claimed_source(data)
    lease_ms, start = data.duration(), data.number()
    return Claim(claim, source, start, pieces.offsets(data, start), lease_ms)


def _put_progress(out: WireWriter, progress: Progress) -> None:
    # The worker's 64 bits once for its steps: a worker's progress is of its own claims only.
    workers = [(w, list(s)) for w, s in groupby(progress.steps, lambda step: step.claim.worker)]
    out.number(len(workers))
    for worker, steps in workers:
        out.raw(pieces.U64.pack(worker))
        out.number(len(steps))
        for step in steps:
            _put_step(out, step)
    _put_refs(out, progress.parked)


def _progress(data: WireReader) -> Progress:
    steps = []
    for _ in range(data.count()):
        worker = pieces.u64(data)
        steps += [_step(data, worker) for _ in range(data.count())]
    return Progress(tuple(steps), _refs(data))


def _put_step(out: WireWriter, step: Step) -> None:
    out.number(step.claim.sequence)
    out.indexes(step.ended)
    out.number(len(step.begun))
    for begun in step.begun:
        out.indexes(begun.indexes)
        out.durations(begun.lease_ms)
        out.number(begun.attempt << 1 | begun.kept_alive)
        out.durations(begun.ahead_ms)


def _step(data: WireReader, worker: int) -> Step:
    claim = ClaimId(worker, data.number())
    ended = data.indexes()
    return Step(claim, ended, tuple(_begun(data) for _ in range(data.count())))


def _begun(data: WireReader) -> Begun:
    indexes, lease_ms = data.indexes(), data.duration()
    attempt, kept_alive = pieces.attempt(data)
    return Begun(indexes, lease_ms, attempt, kept_alive, data.duration())


def _put_refs(out: WireWriter, refs: Iterable[ParkedRef]) -> None:
    found = list(refs)
    out.number(len(found))
    for ref in found:
        out.numbers(ref)


def _refs(data: WireReader) -> tuple[ParkedRef, ...]:
    return tuple(ParkedRef(data.number(), data.number()) for _ in range(data.count()))


def _put_keep_alive(out: WireWriter, beat: KeepAlive) -> None:
    out.raw(pieces.U64.pack(beat.worker))
    pieces.put_runs(out, tuple(_as_runs(beat.sequences)))


def _keep_alive(data: WireReader) -> KeepAlive:
    worker, runs = pieces.u64(data), pieces.runs(data)
    if sum(count for _, count in runs) > 16 * MAX_INDEX:
        raise MalformedMarker("a beat names more claims than a worker can have")
    return KeepAlive(worker, tuple(s for first, count in runs for s in range(first, first + count)))


def _as_runs(sequences: tuple[int, ...]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for sequence in sequences:
        first, count = runs[-1] if runs else (sequence, 0)
        if sequence < first + count:
            raise ValueError("the sequences of a beat must ascend")
        if sequence == first + count and runs:
            runs[-1] = (first, count + 1)
        else:
            runs.append((sequence, 1))
    return runs


def _put_hold(out: WireWriter, hold: Hold) -> None:
    out.numbers((hold.by_tracker, len(hold.held)))
    for held in hold.held:
        pieces.put_claim_id(out, held.claim)
        out.indexes(held.indexes)
        _put_terms(out, held, _HELD_ACTIONS)
    out.number(len(hold.parked))
    for parked in hold.parked:
        out.numbers(parked.ref)
        _put_terms(out, parked, _PARKED_ACTIONS)


def _hold(data: WireReader) -> Hold:
    by_tracker = pieces.flag(data)
    held = tuple(
        Held(pieces.claim_id(data), data.indexes(), *_terms(data, _HELD_ACTIONS))
        for _ in range(data.count())
    )
    parked = tuple(
        HeldParked(ParkedRef(data.number(), data.number()), *_terms(data, _PARKED_ACTIONS))
        for _ in range(data.count())
    )
    return Hold(held, parked, by_tracker)


def _put_terms(out: WireWriter, held: Held | HeldParked, allowed: frozenset[Action]) -> None:
    pieces.put_action(out, held.action, allowed)
    out.durations(held.after_ms, held.ahead_ms)
    out.text(cleaned(held.reason))


def _terms(data: WireReader, allowed: frozenset[Action]) -> tuple[Action, int, int, str]:
    action, after_ms = pieces.action(data, allowed), data.duration()
    return action, after_ms, data.duration(), pieces.reason(data)


def _put_restate(out: WireWriter, restate: Restate) -> None:
    out.numbers((restate.as_of, len(restate.claims)))
    for claim in restate.claims:
        pieces.put_restated(out, claim)
    _put_ended(out, restate.ended)


def _restate(data: WireReader) -> Restate:
    as_of = data.number()
    claims = tuple(pieces.restated(data) for _ in range(data.count()))
    return Restate(as_of, claims, _ended(data))


def _put_ended(out: WireWriter, sources: tuple[EndedRuns, ...]) -> None:
    out.number(len(sources))
    for ended in sources:
        pieces.put_source(out, ended.source)
        pieces.put_runs(out, ended.runs)


def _ended(data: WireReader) -> tuple[EndedRuns, ...]:
    return tuple(EndedRuns(pieces.source(data), pieces.runs(data)) for _ in range(data.count()))


def _put_answer(out: WireWriter, answer: HalfAnswer) -> None:
    out.number(_VERDICTS.index(answer.verdict))
    out.number(answer.number)
    out.text(cleaned(answer.reason))
    _put_refs(out, answer.halves)


def _answer(data: WireReader) -> HalfAnswer:
    verdict = data.most(len(_VERDICTS) - 1)
    number, reason = data.number(), pieces.reason(data)
    return HalfAnswer(_refs(data), _VERDICTS[verdict], number, reason)


_VERDICTS = (Check.COMMIT, Check.ROLLBACK, Check.UNKNOWN)
_WRITERS: dict[type, tuple[int, Callable[[WireWriter, Any], None]]] = {
    Claim: (_CLAIM, _put_claim),
    Progress: (_PROGRESS, _put_progress),
    KeepAlive: (_KEEP_ALIVE, _put_keep_alive),
    Hold: (_HOLD, _put_hold),
    Restate: (_RESTATE, _put_restate),
    Tick: (_TICK, lambda out, tick: None),
    Forget: (_FORGET, lambda out, forget: _put_ended(out, forget.ended)),
    HalfAnswer: (_ANSWER, _put_answer),
}
_READERS: dict[int, Callable[[WireReader], Marker]] = {
    _CLAIM: _claim,
    _PROGRESS: _progress,
    _KEEP_ALIVE: _keep_alive,
    _HOLD: _hold,
    _RESTATE: _restate,
    _TICK: lambda data: Tick(),
    _FORGET: lambda data: Forget(_ended(data)),
    _ANSWER: _answer,
}
