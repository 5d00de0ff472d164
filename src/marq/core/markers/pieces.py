"""Pieces of encoding that several records share, each a pair: put it, take it."""

from __future__ import annotations

from struct import Struct as Layout

from marq.core import names
from marq.core.markers.marker import FAILED, Action, ClaimId, Failed, Part, Restated, Source
from marq.core.markers.reason import cleaned
from marq.core.markers.wire import LATEST_MS, MAX_INDEX, MOST, WireReader, WireWriter
from marq.errors import MalformedMarker

U64 = Layout("<Q")
_TOPIC_ID_BYTES = 16
_PART_ACTIONS = frozenset(Action) - {Action.EXTEND, Action.CANCEL}
_FAILED = 32
"""Beside a part's action: failed attempts follow."""


def put_claim_id(out: WireWriter, claim: ClaimId) -> None:
    out.raw(U64.pack(claim.worker))
    out.number(claim.sequence)


def claim_id(data: WireReader) -> ClaimId:
    return ClaimId(u64(data), data.number())


def u64(data: WireReader) -> int:
    (value,) = U64.unpack(data.raw(8))
    assert isinstance(value, int)
    return value


def put_source(out: WireWriter, source: Source) -> None:
    if len(source.topic_id) != _TOPIC_ID_BYTES:
        raise ValueError(f"a topic id has {_TOPIC_ID_BYTES} bytes, not {len(source.topic_id)}")
    out.raw(source.topic_id)
    out.number(source.partition)
    out.text(source.queue)
    out.text(source.subscription)
    out.number(source.epoch)


def source(data: WireReader) -> Source:
    topic_id = data.raw(_TOPIC_ID_BYTES)
    return Source(topic_id, data.number(), data.text(), data.text(), data.number())


def put_claimed_source(out: WireWriter, source: Source) -> None:
    if not _can_be(source):
        raise ValueError(f"nothing can be claimed from {source}")
    put_source(out, source)


def claimed_source(data: WireReader) -> Source:
    """Where claimed messages lie. Nobody has claimed from what cannot be.

    Asked of claims alone: whatever the tracker itself restates must be read again.
    """
    found = source(data)
    if not _can_be(found):
        raise MalformedMarker("no topic has such a name, or no partition such a number")
    return found


def _can_be(source: Source) -> bool:
    names_it_needs = (source.queue, source.subscription or source.queue)
    return source.partition <= MOST and all(map(names.is_topic, names_it_needs))


def reason(data: WireReader) -> str:
    return cleaned(data.text())


def attempt(data: WireReader) -> tuple[int, bool]:
    """An attempt, and whether it is kept alive. Of one beyond counting the most that is counted:
    the record may end other messages, and must not be refused for it."""
    value = data.number()
    return min(value >> 1, MOST), bool(value & 1)


def put_runs(out: WireWriter, runs: tuple[tuple[int, int], ...], position: int = 0) -> None:
    """(first, count) pairs, each as its distance from the end of the one before."""
    out.number(len(runs))
    for first, count in runs:
        out.numbers((first - position, count))
        position = first + count
        if not count or position >> 63:
            raise ValueError("a run of offsets is empty or beyond 63 bits")


def runs(data: WireReader, position: int = 0) -> tuple[tuple[int, int], ...]:
    found = []
    for _ in range(data.count()):
        first = position + data.number()
        count = data.number()
        position = first + count
        if not count or position >> 63:
            raise MalformedMarker("a run of offsets is empty or beyond 63 bits")
        found.append((first, count))
    return tuple(found)


def put_offsets(out: WireWriter, runs: tuple[tuple[int, int], ...], position: int = 0) -> None:
    """The runs of a claim. Refused here, for what cannot be read back would be skipped there."""
    if not 0 < sum(count for _, count in runs) <= MAX_INDEX:
        raise ValueError(f"a claim holds 1 to {MAX_INDEX} messages")
    put_runs(out, runs, position)


def offsets(data: WireReader, position: int = 0) -> tuple[tuple[int, int], ...]:
    """The runs of a claim: no more than an index can name."""
    found = runs(data, position)
    if not 0 < sum(count for _, count in found) <= MAX_INDEX:
        raise MalformedMarker(f"a claim holds 1 to {MAX_INDEX} messages")
    return found


def put_action(out: WireWriter, action: Action, allowed: frozenset[Action], flag: int = 0) -> None:
    if action not in allowed:
        raise ValueError(f"{action!r} cannot stand here")
    out.number(action | flag)


def action(data: WireReader, allowed: frozenset[Action]) -> Action:
    value = data.number()
    if value not in allowed:
        raise MalformedMarker(f"no such action: {value}")
    return Action(value)


def flag(data: WireReader) -> bool:
    value = data.number()
    if value > 1:
        raise MalformedMarker("a flag is neither 0 nor 1")
    return bool(value)


def put_restated(out: WireWriter, claim: Restated) -> None:
    put_claim_id(out, claim.id)
    put_source(out, claim.source)
    put_offsets(out, claim.runs)
    out.number(len(claim.parts))
    for part in claim.parts:
        out.indexes(part.indexes)
        out.number(part.deadline_ms)
        out.durations(part.ahead_ms, part.lease_ms)
        out.number(part.attempt << 1 | part.kept_alive)
        put_action(out, part.action, _PART_ACTIONS, _FAILED if part.failed else 0)
        out.text(cleaned(part.reason))
        if part.failed:
            _put_failed(out, part.failed)


def _put_failed(out: WireWriter, attempts: tuple[Failed, ...]) -> None:
    out.number(len(attempts))
    for failed in attempts:
        out.numbers((failed.attempt, failed.at_ms))
        out.text(cleaned(failed.reason))


def _failed(data: WireReader) -> tuple[Failed, ...]:
    found = [
        Failed(min(data.number(), MOST), data.most(LATEST_MS), reason(data))
        for _ in range(data.count())
    ]
    return tuple(found[-FAILED:])


def restated(data: WireReader) -> Restated:
    claim, place, where = claim_id(data), source(data), offsets(data)
    return Restated(claim, place, where, tuple(_part(data) for _ in range(data.count())))


def _part(data: WireReader) -> Part:
    indexes, deadline_ms, ahead_ms = data.indexes(), data.most(LATEST_MS), data.duration()
    lease_ms, (begun, kept_alive) = data.duration(), attempt(data)
    doing = data.number()
    if doing & ~_FAILED not in _PART_ACTIONS:
        raise MalformedMarker(f"no such action: {doing}")
    return Part(
        indexes=indexes,
        deadline_ms=deadline_ms,
        ahead_ms=ahead_ms,
        lease_ms=lease_ms,
        attempt=begun,
        kept_alive=kept_alive,
        action=Action(doing & ~_FAILED),
        reason=reason(data),
        failed=_failed(data) if doing & _FAILED else (),
    )
