"""What an instance of a member does next: `decide(state, event)`. Pure.

The rules R1 to R9 of docs/groups.md stand here. The shell performs the actions and tells what came
of them; between any two steps anything may happen, a crash included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from marq.groups import moves
from marq.groups.moves import InstanceAction, InstanceEvent, Why
from marq.groups.records import HoldingRecord
from marq.groups.state import Decision, InstanceState, Phase
from marq.groups.table import NOTHING, Table


def decide(state: InstanceState, event: InstanceEvent) -> Decision:
    """The state after the event, and what to do about it."""
    if state.phase is Phase.ENDED:
        return state, []
    match event:
        case moves.Follow(table):
            return _go_on(replace(state, table=table))
        case moves.Leave():
            return _go_on(replace(state, ends=True))
        case moves.Lapsed() | moves.MemberOverdue() | moves.ProxyInitiated() | moves.ProxyFailed():
            pass  # these name another claim than ours
        case _ if event.claim != state.claim:
            return state, []  # of a claim that was given up
    return _ANSWERS[type(event)](state, event)


# Becoming the owner (R1).


def _candidate(state: InstanceState, event: moves.Lapsed) -> Decision:
    claim = event.claim
    if not state.is_candidate or state.ends:
        return state, []
    # The whole record is made before the init. `prev` must never be one that was read after it: a
    # claim that came in between would be overruled without having been fenced.
    wanted = _free(state.table, state.member)
    hold = _hold(state, claim, 0, state.table.prev(state.member), wanted)
    initiating = replace(
        state, phase=Phase.INITIATING, claim=claim, underway=hold, own=-1, appends=1
    )
    return initiating, [moves.Init(claim)]


def _free(table: Table, member: str) -> frozenset[int]:
    """R2: what it shall have and no other holds."""
    return table.wanted(member) - table.held_by_others(member)


def _hold(
    state: InstanceState, claim: str, n: int, prev: str, partitions: frozenset[int]
) -> HoldingRecord:
    return HoldingRecord(
        claim, n, state.member, prev, tuple(sorted(partitions)), state.table.version, state.instance
    )


def _initiated(state: InstanceState, event: moves.Initiated) -> Decision:
    if state.phase is not Phase.INITIATING or state.underway is None:
        return state, []
    claiming = replace(state, phase=Phase.CLAIMING, appended_at=None)
    # Always, even if the log has moved on and the hold will be void: only the log knows.
    return claiming, [moves.Append(state.underway)]


def _not_initiated(state: InstanceState, event: moves.InitFailed) -> Decision:
    return _stand_by(state, Why.LOST)


def _appended(state: InstanceState, event: moves.Appended) -> Decision:
    if state.underway is None or state.underway.n != event.n:
        return state, []
    return _go_on(replace(state, appended_at=event.offset))


def _again(state: InstanceState, event: moves.Unknown) -> Decision:
    """Same `prev`, next n: at most one of them can be valid."""
    if state.underway is None or state.underway.n != event.n:
        return state, []
    hold = replace(state.underway, n=state.appends)
    return replace(state, underway=hold, appends=hold.n + 1), [moves.Append(hold)]


def _claimed(state: InstanceState) -> Decision:
    """The read-back: only what the log says at our record counts."""
    if state.table.claim(state.member) == state.claim:
        return _go_on(replace(state, phase=Phase.ACTIVE))
    if state.appended_at is not None and state.table.next > state.appended_at:
        return _stand_by(state, Why.LOST)
    return state, []


# Being it (R3, R5, R9).


def _go_on(state: InstanceState) -> Decision:
    """Whatever follows from where things stand."""
    match state.phase:
        case Phase.STANDBY:
            return _wait(state)
        case Phase.CLAIMING:
            return _claimed(state)
        case Phase.ACTIVE | Phase.LEAVING if state.table.claim(state.member) != state.claim:
            return _stand_by(state, Why.LOST)  # superseded
        case Phase.ACTIVE:
            return _active(state)
        case Phase.LEAVING:
            return _leaving(*_drain(state, NOTHING))
    return state, []


def _wait(state: InstanceState) -> Decision:
    config = state.table.config
    if state.ends or state.table.deleted:
        return replace(state, phase=Phase.ENDED), [moves.End()]
    if config and config.kind == "static" and state.member not in config.names:
        error = f"{state.member!r} is no member of this static group: {', '.join(config.names)}"
        return replace(state, phase=Phase.ENDED), [moves.End(error)]
    return state, []


def _active(state: InstanceState) -> Decision:
    holder = state.table.holders[state.member]
    if state.ends or state.table.deleted or holder.stepping:
        return _go_on(replace(state, phase=Phase.LEAVING))
    state, actions = _read_back(state)
    wanted = state.table.wanted(state.member)
    state, more = _drain(state, wanted)
    actions += more
    if state.underway is None:
        state, more = _change(state, wanted)
        actions += more
    if not wanted and not state.table.held(state.member) and state.underway is None:
        resting, rest = _stand_by(state, Why.DROPPED)
        return resting, [*actions, moves.Resign(state.claim), *rest]
    return state, actions


def _read_back(state: InstanceState) -> Decision:
    """What the log has granted since; new partitions start from their committed offsets (R5)."""
    latest = state.table.holders[state.member].latest
    if state.underway is None or latest.n <= state.own:
        return state, []
    held = state.table.held(state.member)
    known = state.running | state.loading | state.draining | state.drained
    new = held - known
    state = replace(
        state,
        underway=None,
        appended_at=None,
        own=latest.n,
        loading=state.loading | new,
        drained=state.drained & held,
    )
    return state, [moves.Load(state.claim, new)] if new else []


def _drain(state: InstanceState, wanted: frozenset[int]) -> Decision:
    """Stop what we must give up; it is released only when its acks are done (R9)."""
    gone = state.running - wanted
    if not gone:
        return state, []
    state = replace(state, running=state.running - gone, draining=state.draining | gone)
    return state, [moves.Drain(state.claim, gone)]


def _change(state: InstanceState, wanted: frozenset[int]) -> Decision:
    """The next hold (R3), if it differs: without what is drained, with what is free. Nothing is
    restarted while a hold that leaves it out may still become valid."""
    actions: list[InstanceAction] = []
    if again := state.drained & wanted:
        state = replace(state, drained=state.drained - again, loading=state.loading | again)
        actions.append(moves.Load(state.claim, again))
    held = state.table.held(state.member)
    next_held = (held - state.drained) | _free(state.table, state.member)
    if next_held != held:
        latest = state.table.holders[state.member].latest
        hold = _hold(state, state.claim, state.appends, latest.id, next_held)
        state = replace(state, underway=hold, appended_at=None, appends=hold.n + 1)
        actions.append(moves.Append(hold))
    return state, actions


def _loaded(state: InstanceState, event: moves.Loaded) -> Decision:
    return state, [moves.Recommit(state.claim, event.offsets)]


def _recommitted(state: InstanceState, event: moves.Recommitted) -> Decision:
    offsets = event.offsets
    loaded = state.loading & offsets.keys()
    wanted = state.table.wanted(state.member) if state.phase is Phase.ACTIVE else NOTHING
    started = loaded & wanted
    state = replace(
        state,
        loading=state.loading - loaded,
        running=state.running | started,
        drained=state.drained | (loaded - started),
    )
    state, actions = _go_on(state)
    if state.running & started:
        fences = state.table.holders[state.member].fences
        start = moves.Start(
            state.claim,
            {number: offsets[number] for number in started},
            {number: fences[number] for number in started},
        )
        return state, [start, *actions]
    return state, actions


# Giving it up.


def _drained(state: InstanceState, event: moves.Drained) -> Decision:
    gone = state.draining & event.partitions
    return _go_on(replace(state, draining=state.draining - gone, drained=state.drained | gone))


def _leaving(state: InstanceState, actions: list[InstanceAction]) -> Decision:
    """Drain and resign. What is held stays the member's: a standby takes it over as it is."""
    if state.running or state.loading or state.draining:
        return state, actions
    resting, rest = _stand_by(state, Why.STEPPED_DOWN)
    return resting, [*actions, moves.Resign(state.claim), *rest]


def _fenced(state: InstanceState, event: moves.WasFenced) -> Decision:
    if state.phase is Phase.STANDBY:
        return state, []
    resting, rest = _stand_by(state, Why.FENCED)
    return resting, [moves.Resign(state.claim), *rest]


def _stand_by(state: InstanceState, why: Why) -> Decision:
    resting = InstanceState(
        state.member, state.instance, table=state.table, proxy=state.proxy, ends=state.ends
    )
    resting, more = _wait(resting)
    return resting, [moves.Discard(), moves.StandBy(why), *more]


# On behalf of another (R4).


def _overdue(state: InstanceState, event: moves.MemberOverdue) -> Decision:
    table, member, claim = state.table, event.member, event.claim
    blocked = table.wanted(state.member) & table.held(member)
    if state.phase is not Phase.ACTIVE or state.proxy or member == state.member or not blocked:
        return state, []
    # As with a claim of our own: the record is made before the init.
    hold = proxy_hold(table, member, claim, table.held(member) & table.wanted(member))
    return replace(state, proxy=hold), [moves.ProxyInit(claim, member)]


def proxy_hold(table: Table, member: str, claim: str, partitions: frozenset[int]) -> HoldingRecord:
    """A hold in another's name. Make it, then fence the member, then append it."""
    prev, listed = table.prev(member), tuple(sorted(partitions))
    return HoldingRecord(claim, 0, member, prev, listed, table.version, proxy=True)


def _proxied(state: InstanceState, event: moves.ProxyInitiated | moves.ProxyFailed) -> Decision:
    hold = state.proxy
    if hold is None or hold.claim != event.claim:
        return state, []
    fenced = isinstance(event, moves.ProxyInitiated)
    return replace(state, proxy=None), [moves.Append(hold)] if fenced else []


_ANSWERS: dict[type, Callable[[InstanceState, Any], Decision]] = {
    moves.Lapsed: _candidate,
    moves.Initiated: _initiated,
    moves.InitFailed: _not_initiated,
    moves.Appended: _appended,
    moves.Unknown: _again,
    moves.Loaded: _loaded,
    moves.Recommitted: _recommitted,
    moves.Drained: _drained,
    moves.WasFenced: _fenced,
    moves.MemberOverdue: _overdue,
    moves.ProxyInitiated: _proxied,
    moves.ProxyFailed: _proxied,
}
