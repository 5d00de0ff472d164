"""Laws of the whole: whatever workers, users, leaders and trackers do, and wherever they die."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, note

from marq.core.fold.fold import fold
from marq.core.fold.restate import needed_from
from marq.core.fold.state import State
from marq.core.markers.marker import Action, HeldParked, Hold, Parked, ParkedRef, Tick
from tests.properties.chance import Chance, chances
from tests.properties.effort import tried
from tests.properties.hold_log import ORDERS, blobs
from tests.properties.world import World
from tests.properties.world_tracker import Tracker
from tests.properties.world_workers import Workers


class History:
    """A world to which things happen."""

    def __init__(self, chance: Chance) -> None:
        self.chance = chance
        self.world = World()
        self.workers = Workers(self.world, chance)
        self.tracker = Tracker(self.world, self.workers, chance)
        self._refs: list[ParkedRef] = []
        workers = self.workers
        self._happenings: list[tuple[int, Callable[[], None]]] = [
            (2, lambda: None),
            (6, self.world.send),
            (1, lambda: self.world.source.append(None)),
            (10, workers.poll),
            (24, workers.land),
            (4, self.much_lands),
            (4, workers.land_again),
            (12, workers.commit),
            (14, workers.begin),
            (8, workers.ack),
            (3, lambda: workers.hold(Action.REDELIVER)),
            (2, lambda: workers.hold(Action.BURY)),
            (2, lambda: workers.hold(Action.EXTEND)),
            (4, workers.beat),
            (3, workers.rebalance),
            (3, workers.die),
            (3, self.park),
            (2, self.cancel),
            (20, self.tracker.run),
            (1, self.tracker.lose_checkpoint),
            (14, self.time_passes),
            (2, self.nothing_for_a_while),
            (1, self.the_leader_changes),
            (1, self.seek),
        ]
        self._weights = [n for n, (weight, _) in enumerate(self._happenings) for _ in range(weight)]

    def run(self) -> None:
        """Until chance is used up."""
        for _ in range(3):
            self.world.send()
        try:
            while self.chance.left():
                self._happenings[self.chance.pick(self._weights)][1]()
                self.world.check()
            self.world.check_rebuilt()
        finally:
            note("\n".join(self.world.story))

    def much_lands(self) -> None:
        for _ in range(4):
            self.workers.land()

    def park(self) -> None:
        action = self.chance.pick((Action.RELEASE, Action.CHECK))
        delay_ms = self.chance.pick((500, 4_000))
        self._refs.append(self.world.park(Parked(0, delay_ms, delay_ms // 5, action)))

    def cancel(self) -> None:
        # Whether a cancel is late goes by the clock, which a rebuilt state may not know.
        if self._refs and not self.world.has_stepped_back:
            cancel = HeldParked(self.chance.pick(self._refs[::-1]), Action.CANCEL)
            self.world.append_of_worker(Hold(parked=(cancel,)))

    def time_passes(self) -> None:
        for _ in range(1 + self.chance.below(4)):
            self.world.now += self.chance.pick((100, 900, 1_900))
            self.world.append(Tick())

    def nothing_for_a_while(self) -> None:
        self.world.now += 30_000

    def the_leader_changes(self) -> None:
        self.world.behind = self.chance.pick((0, 7, 400))
        self.world.has_stepped_back |= self.world.behind > 0

    def seek(self) -> None:
        if self.world.open_at and self.chance.below(3) == 2:
            self.workers.seek()

    def calm_down(self) -> None:
        """Everybody dies; one good worker and a tracker that never crashes see to the rest."""
        self.workers.retire()
        for _ in range(60):
            self.world.now += 1_500
            self.world.append(Tick())
            self._work_off()
            self.tracker.catch_up()
            if self._is_done():
                return
        raise AssertionError(f"after 90 s this is still open: {self.world.open_at[-1]}")

    def _work_off(self) -> None:
        worker = self.workers.owner
        while self._left(worker.position):
            self.workers.poll(most=1)
        while worker.sent:
            self.workers.land(worker)
        self.workers.commit()
        while any(delivery.phase == "fetched" for delivery in worker.deliveries):
            self.workers.ack()
        while worker.sent:
            self.workers.land(worker)

    def _left(self, position: int) -> bool:
        return any(message is not None for message in self.world.source[position:])

    def _is_done(self) -> bool:
        return not self.world.open_at[-1] and not self._left(self.world.committed)


@tried(3)
@given(chances(900))
def test_nothing_is_lost_and_nothing_is_acted_on_twice(chance: Chance) -> None:
    History(chance).run()


@tried(1)
@given(chances(700))
def test_in_the_end_every_message_is_acked_dead_or_cancelled(chance: Chance) -> None:
    history = History(chance)
    history.run()

    history.calm_down()

    assert history.world.settled == set(range(history.world.identities))


@tried(1)
@given(chances(700))
def test_when_everything_has_ended_the_state_is_small_and_the_log_can_go(chance: Chance) -> None:
    history = History(chance)
    history.run()
    history.calm_down()

    state = fold(history.tracker.load(), history.world.log)
    blob, chunks, _ = blobs(state)

    assert not state.claims
    assert not chunks
    assert len(blob) < 120 + 16 * len(history.world.source)
    assert needed_from(state) == len(history.world.log)


@tried(1)
@given(chances(700))
def test_a_source_whose_topic_is_gone_is_forgotten_and_opens_nothing(chance: Chance) -> None:
    history = History(chance)
    history.run()
    history.calm_down()
    history.tracker.catch_up(trims=False)  # else the log begins with what it says of the source
    history.workers.land_all_again()
    history.tracker.gone = {ORDERS.topic_id}

    history.tracker.catch_up()

    state = fold(history.tracker.load(), history.world.log)
    rebuilt = fold(State(), history.world.log[history.world.start :])
    assert not state.claimed and not rebuilt.claimed
    assert not state.claims and not rebuilt.claims
