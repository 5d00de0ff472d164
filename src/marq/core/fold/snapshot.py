"""The state of a fold as bytes: one blob for what is at work, one for each chunk of parked messages
and for each shelf of sources that are not.

A snapshot of another version is not read: the log says the same, from its start.
"""

from __future__ import annotations

from collections.abc import Mapping

from marq.core.fold.parked import Answers, Chunk, ChunkIndex, Chunks, ParkedEntry
from marq.core.fold.sources import Claimed, Shelf, Shelves
from marq.core.fold.state import OpenClaim, State
from marq.core.markers import pieces
from marq.core.markers.marker import Action, ClaimId, Failed, ParkedRef, Part, Restated
from marq.core.markers.runs import Runs
from marq.core.markers.wire import WireReader, WireWriter

VERSION = 6
_ACTIONS = frozenset(Action)


class StaleSnapshot(Exception):
    """The snapshot is of another version: build the state anew from the log."""


def dump(state: State) -> bytes:
    """Everything but chunks and shelves."""
    out = WireWriter()
    out.numbers((VERSION, state.next_offset, state.clock_ms, state.lease_clock_ms))
    out.numbers((state.grace_ms, state.skipped, state.restated_ms, state.told_to))
    out.number(state.claimed.number_aside)
    _put_sources(out, state.claimed.near)
    out.number(len(state.claims))
    for claim in state.claims.values():
        _put_claim(out, claim)
    out.number(len(state.parked.index))
    for bucket, about in state.parked.index.items():
        out.numbers((bucket, about.count, max(0, about.first_lapse_ms), about.lowest_offset))
    for counts in (state.parked.counts, state.parked.halves):
        out.number(len(counts))
        for queue, count in counts.items():
            out.text(queue)
            out.number(count)
    return out.bytes()


def load(
    blob: bytes,
    chunks: Mapping[int, Chunk] | None = None,
    shelves: Mapping[int, Shelf] | None = None,
) -> State:
    """The state this blob, these chunks and these shelves are."""
    data = WireReader(blob)
    if data.number() != VERSION:
        raise StaleSnapshot
    state = State(data.number(), data.number(), data.number(), data.number())
    state.skipped, state.restated_ms, state.told_to = (data.number() for _ in range(3))
    state.claimed.number_aside = data.number()
    state.claimed.near = _sources(data)
    state.claimed.aside = Shelves(shelves or {})
    for _ in range(data.count()):
        claim = _claim(data)
        state.claims[claim.id] = claim
    rows = ([data.number() for _ in range(4)] for _ in range(data.count()))
    state.parked.index = {bucket: ChunkIndex(*about) for bucket, *about in rows}
    for counts in (state.parked.counts, state.parked.halves):
        for _ in range(data.count()):
            queue = data.text()
            counts[queue] = data.number()
    state.parked.chunks = Chunks(chunks or {})
    data.end()
    return state


def dump_chunk(chunk: Chunk) -> bytes:
    """A chunk of parked messages."""
    out = WireWriter()
    out.number(len(chunk))
    for entry in chunk.values():
        out.numbers((*entry.ref, entry.due_ms, entry.ahead_ms, entry.action))
        out.numbers((entry.tries, entry.marked))
        out.text(entry.reason)
        out.text(entry.queue)
        _put_half(out, entry.half)
    return out.bytes()


def load_chunk(blob: bytes) -> Chunk:
    """The chunk these bytes are."""
    data = WireReader(blob)
    entries = [_entry(data) for _ in range(data.count())]
    data.end()
    return {entry.ref.offset: entry for entry in entries}


def dump_shelf(shelf: Shelf) -> bytes:
    """Sources that were put aside."""
    out = WireWriter()
    _put_sources(out, shelf)
    return out.bytes()


def load_shelf(blob: bytes) -> Shelf:
    """The sources these bytes are."""
    data = WireReader(blob)
    shelf = _sources(data)
    data.end()
    return shelf


def _put_sources(out: WireWriter, sources: Shelf) -> None:
    out.number(len(sources))
    for (topic_id, partition, queue, subscription), ever in sources.items():
        out.raw(topic_id)
        out.numbers((partition, ever.epoch, ever.touched_ms))
        out.text(queue)
        out.text(subscription)
        pieces.put_runs(out, tuple((start, stop - start) for start, stop in ever.runs))


def _sources(data: WireReader) -> Shelf:
    found: Shelf = {}
    for _ in range(data.count()):
        topic_id, partition = data.raw(16), data.number()
        epoch, touched_ms = data.number(), data.number()
        stream = (topic_id, partition, data.text(), data.text())
        runs = Runs((start, start + count) for start, count in pieces.runs(data))
        found[stream] = Claimed(epoch, runs, touched_ms)
    return found


def _entry(data: WireReader) -> ParkedEntry:
    ref = ParkedRef(data.number(), data.number())
    due_ms, ahead_ms, action = data.number(), data.number(), pieces.action(data, _ACTIONS)
    tries, marked = data.number(), bool(data.number())
    reason, queue, half = data.text(), data.text(), _half(data)
    return ParkedEntry(ref, due_ms, ahead_ms, action, tries, marked, reason, queue, half)


def _put_half(out: WireWriter, half: Answers | None) -> None:
    out.number(half is not None)
    if half is None:
        return
    out.numbers((half.unknown, half.heard, len(half.said)))
    for said in half.said:
        out.numbers((said.attempt, said.at_ms))
        out.text(said.reason)


def _half(data: WireReader) -> Answers | None:
    if not data.number():
        return None
    unknown, heard = data.number(), data.number()
    said = (Failed(data.number(), data.number(), data.text()) for _ in range(data.count()))
    return Answers(unknown, heard, tuple(said))


def _put_claim(out: WireWriter, claim: OpenClaim) -> None:
    pieces.put_restated(out, Restated(claim.id, claim.source, claim.runs, tuple(claim.parts)))
    out.numbers((claim.stated_at, claim.stated_ms, claim.named_at))
    out.indexes(claim.marked)
    out.number(len(claim.twins))
    for twin in claim.twins:
        pieces.put_claim_id(out, twin)


def _claim(data: WireReader) -> OpenClaim:
    said = pieces.restated(data)
    parts: list[Part] = list(said.parts)
    at, ms, named, marked = data.number(), data.number(), data.number(), data.indexes()
    twins: tuple[ClaimId, ...] = tuple(pieces.claim_id(data) for _ in range(data.count()))
    return OpenClaim(said.id, said.source, said.runs, parts, at, ms, named, marked, twins)
