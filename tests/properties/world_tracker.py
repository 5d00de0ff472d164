"""The tracker of the simulated world: the product's fold, emission, act and trimming; it crashes
before and after every step, runs batches again cut otherwise, and loses its checkpoint.
"""

from __future__ import annotations

from marq.core.fate import act
from marq.core.fold.fold import Record, fold
from marq.core.fold.overdue import Due, Event, emit
from marq.core.fold.restate import caught_up, needed_from, parting, restatement
from marq.core.fold.state import State
from marq.core.markers.marker import Action, HeldParked, Hold
from tests.properties.chance import Chance
from tests.properties.hold_log import blobs, loaded
from tests.properties.world import World, open_in
from tests.properties.world_workers import Workers

MAX_ATTEMPTS = 3
MAX_CHECKS = 2
RESTATE_AFTER_MS = 1_000


class Crashed(Exception):
    """The tracker is killed here: what it had not written is gone."""


class Tracker:
    """Folds the hold log batch by batch, from its checkpoint."""

    def __init__(self, world: World, workers: Workers, chance: Chance) -> None:
        self._world, self._workers, self._chance = world, workers, chance
        self._checkpoint = blobs(State())
        self._rebuilt_at = 0
        """Nothing is emitted, restated or trimmed before the fold has come so far."""
        self.fragile = self._trims = True
        self.gone: set[bytes] = set()
        """Topics that were deleted, by id."""

    def lose_checkpoint(self) -> None:
        self._checkpoint = blobs(State())
        self._rebuilt_at = len(self._world.log)
        self._world.was_rebuilt = True
        self._world.story.append("the checkpoint is lost")

    def run(self) -> None:
        """One batch; perhaps it crashes on the way, then all of it will be run again."""
        try:
            self._batch(1 + self._chance.below(12))
        except Crashed:
            self._world.story.append("the tracker crashes")

    def catch_up(self, trims: bool = True) -> None:
        """All there is in one batch, without a crash."""
        self.fragile, self._trims = False, trims
        self._batch(len(self._world.log))

    def _may_crash(self) -> None:
        if self.fragile and self._chance.below(12) == 11:
            raise Crashed

    def load(self) -> State:
        return loaded(self._checkpoint)

    def _batch(self, size: int) -> None:
        world, state = self._world, self.load()
        start = max(state.next_offset, world.start)
        end = min(len(world.log), start + size)
        if start == end:
            return
        fold(state, world.log[start:end])
        world.story.append(f"the tracker folds {start} to {end}")
        if state.next_offset >= self._rebuilt_at:
            assert open_in(state) == world.open_at[end - 1], "the tracker has other things open"
            tail = self._act(state)
            self._trim(state, start, tail)
        self._may_crash()
        state.put_idle_aside()
        self._checkpoint = blobs(state)

    def _act(self, state: State) -> list[Record]:
        """Perform what is overdue; the log that was read for it beyond the batch."""
        events = emit(state, self._chance.pick((1_000, 1_000, 2, 1)))
        self._may_crash()
        high_watermark = len(self._world.log)
        tail = self._world.log[state.next_offset :]
        standing = act.standing(events, (record.body for record in tail))
        for at in range(0, len(standing), 2):
            for _ in range(self._chance.pick((0, 0, 1, 2)) if self.fragile else 0):
                self._workers.land()  # nobody waits for act
            self._may_crash()
            self._transaction(standing[at : at + 2], high_watermark)
            self._may_crash()
        return tail

    def _transaction(self, events: list[Event], high_watermark: int) -> None:
        """Copies and dead letters with their ends, or a hold: all of it or nothing."""
        ended = []
        for event in events:
            self._world.check_may_act(event, high_watermark)
            if self._is_put_off(event):
                continue
            ended.append(event)
            self._perform(event)
        if ended:
            self._world.append(act.ends(ended))

    def _is_put_off(self, event: Event) -> bool:
        """Whether it is answered with a hold: a half message to check, or a broker that is ill."""
        if isinstance(event, Due) and event.action is Action.CHECK and event.tries < MAX_CHECKS:
            held = HeldParked(event.ref, Action.CHECK, 1_000)
            self._world.append(Hold(parked=(held,), by_tracker=True))
            return True
        if self.fragile and self._chance.below(8) == 7:
            self._world.append(act.put_off([event], 1_000))
            return True
        return False

    def _perform(self, event: Event) -> None:
        spent = not isinstance(event, Due) and event.attempt >= MAX_ATTEMPTS
        if spent or event.action in (Action.BURY, Action.CHECK):
            self._world.bury(event)
        else:
            self._world.copy(event)

    def _trim(self, state: State, batch_start: int, tail: list[Record]) -> None:
        world = self._world
        if not self._trims or (self.fragile and self._chance.below(3)):
            return
        made = restatement(state, RESTATE_AFTER_MS)
        clocks = (state.clock_ms, state.lease_clock_ms, state.grace_ms)
        known = caught_up(made, State(state.next_offset, *clocks), tail)
        for marker in parting(known, self.gone):
            world.append(marker)
        self._may_crash()
        world.start = max(world.start, min(needed_from(state), batch_start))
        world.story.append(f"the hold log is trimmed below {world.start}")
        world.check_rebuilt()
