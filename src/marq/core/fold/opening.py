"""What opens and what ends: the offsets of a source under its claims.

Claims of one offset accumulate, an end under any of them ends them all, and what has ended never
opens again, whatever lands late.
"""

from __future__ import annotations

from msgspec.structs import replace

from marq.core.fold.sources import Claimed
from marq.core.fold.state import OpenClaim, State
from marq.core.markers import claimed
from marq.core.markers.marker import EndedRuns, Restated, Source
from marq.core.markers.runs import Runs


def open_claim(state: State, offset: int, claim: Restated, start: int, known_at: int) -> None:
    """Open what of the claim may open: what has ended never opens again.

    `known_at` is the last record it knows of: itself, or what a restatement was made from.
    """
    ever = _ever_claimed(state, claim.source)
    if ever is None:
        return
    end = claimed.end(claim.runs)
    parts = [replace(part) for part in claim.parts]
    opened = OpenClaim(claim.id, claim.source, claim.runs, parts, offset, state.clock_ms, known_at)
    if ever.meets(start, end):  # rarely: most claims are all new
        opened.close(_seen(ever, claim.runs) & ~_still_open(state, opened))
        _pair(state, opened)
    ever.add(start, end)
    if opened.parts:
        state.claims[claim.id] = opened


def _ever_claimed(state: State, source: Source) -> Runs | None:
    """The runs ever claimed of the source; None if it was sought again since.

    A seek starts over: with the first claim of the new epoch, what was open in the old one is
    void, or a claim of it that lands late could not be told from one still needed.
    """
    stream, epoch = source[:4], source.epoch
    known = state.claimed.touch(stream, state.clock_ms)
    if known is None:
        known = state.claimed[stream] = Claimed(epoch, touched_ms=state.clock_ms)
    elif known.epoch < epoch:
        for old in state.claims_of(Source(*stream, known.epoch)):
            del state.claims[old.id]
        known = state.claimed[stream] = Claimed(epoch, touched_ms=state.clock_ms)
    return known.runs if known.epoch == epoch else None


def _seen(ever: Runs, runs: claimed.ClaimedRuns) -> int:
    mask = 0
    for first, count in runs:
        for low, high in ever.within(first, first + count):
            mask |= claimed.indexes(runs, low, high)
    return mask


def _still_open(state: State, claim: OpenClaim) -> int:
    """The indexes of the claim whose offsets are open under another one."""
    mask = 0
    for other in state.claims_of(claim.source):
        for low, high in claimed.offsets(other.runs, other.open):
            mask |= claimed.indexes(claim.runs, low, high)
    return mask


def _pair(state: State, claim: OpenClaim) -> None:
    """Note which claims share open offsets with this one."""
    for other in state.claims_of(claim.source):
        shared = 0
        for low, high in claimed.offsets(claim.runs, claim.open):
            shared |= claimed.indexes(other.runs, low, high)
        shared &= other.open
        if shared:
            other.marked &= ~shared  # a new claim: someone has it again
            other.twins += (claim.id,)
            claim.twins += (other.id,)


def unmark(state: State, claim: OpenClaim, indexes: int) -> None:
    """Let these messages be emitted again, whichever claim speaks for them."""
    claim.marked &= ~indexes
    for twin in twins(state, claim):
        for low, high in claimed.offsets(claim.runs, indexes):
            twin.marked &= ~claimed.indexes(twin.runs, low, high)


def end(state: State, offset: int, claim: OpenClaim, indexes: int) -> None:
    """End these messages under every claim; late or not: the act of the tracker is always late."""
    for twin in twins(state, claim):
        for low, high in claimed.offsets(claim.runs, claim.open & indexes):
            twin.close(claimed.indexes(twin.runs, low, high))
            twin.named_at = offset
        _forget_if_ended(state, twin)
    claim.close(indexes)
    _forget_if_ended(state, claim)


def _forget_if_ended(state: State, claim: OpenClaim) -> None:
    if claim.parts:
        return
    if claim.id in state.claims:
        del state.claims[claim.id]
    for twin in twins(state, claim):
        twin.twins = tuple(other for other in twin.twins if other != claim.id)


def twins(state: State, claim: OpenClaim) -> list[OpenClaim]:
    """The open claims that share offsets with this one, or did."""
    return [state.claims[twin] for twin in claim.twins if twin in state.claims]


def end_runs(state: State, offset: int, ended: EndedRuns) -> None:
    """What has ended stays so, also for a state that never read how.

    In a state that did, this changes nothing. In one built anew from a trimmed log it ends what
    a claim sent twice has opened meanwhile.
    """
    if _says_nothing_new(state, ended):
        return
    ever = _ever_claimed(state, ended.source)
    if ever is None:
        return
    runs = Runs((first, first + count) for first, count in ended.runs)
    for claim in state.claims_of(ended.source):
        mask = 0
        for low, high in claimed.offsets(claim.runs, claim.open):
            for start, stop in runs.within(low, high):
                mask |= claimed.indexes(claim.runs, start, stop)
        if mask:
            claim.close(mask)
            claim.named_at = offset
            _forget_if_ended(state, claim)
    for start, stop in runs:
        ever.add(start, stop)


def _says_nothing_new(state: State, ended: EndedRuns) -> bool:
    """Whether nothing of the source is open and all this was claimed: so it is with most, and they
    are left where they are."""
    source = ended.source
    known = state.claimed.get(source[:4])
    if known is None or known.epoch != source.epoch or state.claims_of(source):
        return False
    return all(known.runs.has(first, first + count) for first, count in ended.runs)


def forget(state: State, offset: int, ended: EndedRuns) -> None:
    """Know nothing more of a source whose topic was deleted, unless some of it is open.

    First what has ended ends here too: a state built anew from a trimmed log may have opened it
    again, by a claim sent twice, and would never hear that it had ended.
    """
    end_runs(state, offset, ended)
    known = state.claimed.get(ended.source[:4])
    is_open = bool(state.claims_of(ended.source))
    if known is not None and known.epoch == ended.source.epoch and not is_open:
        del state.claimed[ended.source[:4]]
        state.forgotten.append(ended.source[:4])
