"""Any valid marker, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from marq.core.markers import bits, claimed
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
    Part,
    Progress,
    Restate,
    Restated,
    Source,
    Step,
    Tick,
)
from marq.core.markers.wire import LATEST_MS, LONGEST_MS, MAX_INDEX, MOST

LARGEST = 1 << 62

counts = st.integers(1, 300) | st.integers(1, MAX_INDEX // 4)
durations = st.integers(0, 100_000) | st.integers(0, LONGEST_MS)
moments = st.integers(0, LARGEST)
times = st.integers(0, LATEST_MS)
attempts = st.integers(0, 1_000) | st.integers(0, MOST)
texts = st.text(max_size=20)
topics = st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,20}", fullmatch=True)
words = st.integers(0, (1 << 64) - 1)
sequences = st.integers(0, 500) | st.integers(0, LARGEST)
claim_ids = st.builds(ClaimId, words, sequences)
sources = st.builds(
    Source,
    st.binary(min_size=16, max_size=16),
    st.integers(0, MOST),
    topics,
    st.just("") | topics,
    st.integers(0, 1 << 40),
)
refs = st.builds(ParkedRef, moments, moments)


@st.composite
def runs(draw: st.DrawFn, start: int = 0, least: int = 1) -> claimed.ClaimedRuns:
    """Up to four runs from a position on, apart or touching; as many messages as a claim holds."""
    found = []
    for _ in range(draw(st.integers(least, 4))):
        first = start + draw(st.integers(0, 40) | st.integers(0, 1 << 40))
        start = first + draw(counts)
        found.append((first, start - first))
    return tuple(found)


_short_runs = runs().map(lambda found: found[0]).filter(lambda run: sum(run) <= MAX_INDEX)
_masks: st.SearchStrategy[int] = st.one_of(
    st.sets(st.integers(0, MAX_INDEX - 1), max_size=8).map(bits.of),
    st.integers(0, (1 << 600) - 1),
    st.integers(1, MAX_INDEX).map(lambda size: bits.span(0, size)),
    _short_runs.map(lambda run: bits.span(*run)),
)


def masks() -> st.SearchStrategy[int]:
    """A set of indexes: scattered, dense, full, in one run, or empty."""
    return _masks


@st.composite
def claims(draw: st.DrawFn) -> Claim:
    """A claim of up to four runs."""
    start = draw(moments.filter(lambda at: at < LARGEST >> 1))
    return Claim(draw(claim_ids), draw(sources), start, draw(runs(start)), draw(durations))


begun = st.builds(Begun, masks(), durations, attempts, st.booleans(), durations)
steps = st.builds(Step, claim_ids, masks(), st.lists(begun, max_size=3).map(tuple))
progresses = st.builds(
    Progress, st.lists(steps, max_size=4).map(tuple), st.lists(refs, max_size=3).map(tuple)
)
keep_alives = st.builds(
    KeepAlive, words, st.sets(sequences, max_size=20).map(lambda found: tuple(sorted(found)))
)
hold_actions = st.sampled_from([a for a in Action if a is not Action.EXPIRE])
held_actions = hold_actions.filter(lambda action: action is not Action.CANCEL)
held = st.builds(Held, claim_ids, masks(), held_actions, durations, durations, texts)
held_parked = st.builds(HeldParked, refs, hold_actions, durations, durations, texts)
holds = st.builds(
    Hold,
    st.lists(held, max_size=3).map(tuple),
    st.lists(held_parked, max_size=3).map(tuple),
    st.booleans(),
)
part_actions = st.sampled_from([a for a in Action if a not in (Action.EXTEND, Action.CANCEL)])
parts = st.builds(
    Part, masks(), times, durations, durations, attempts, st.booleans(), part_actions, texts
)
restated = st.builds(Restated, claim_ids, sources, runs(), st.lists(parts, max_size=3).map(tuple))
ended_runs = st.builds(EndedRuns, sources, runs(least=0))
restates = st.builds(
    Restate,
    moments,
    st.lists(restated, max_size=3).map(tuple),
    st.lists(ended_runs, max_size=3).map(tuple),
)

forgets = st.builds(Forget, st.lists(ended_runs, max_size=3).map(tuple))

answers = st.builds(
    HalfAnswer, st.lists(refs, max_size=3).map(tuple), st.sampled_from(Check), sequences, texts
)

kinds: dict[str, st.SearchStrategy[Marker]] = {
    "claim": claims(),
    "progress": progresses,
    "keep-alive": keep_alives,
    "hold": holds,
    "restate": restates,
    "tick": st.just(Tick()),
    "forget": forgets,
    "answer": answers,
}
markers: st.SearchStrategy[Marker] = st.one_of(*kinds.values())
