"""Any hold log: what workers, users and trackers may write, and much that they never would."""

from __future__ import annotations

from collections.abc import Callable

from marq.core.fold.fold import Record
from marq.core.fold.restate import restatement
from marq.core.fold.state import State
from marq.core.markers.marker import (
    Action,
    Begun,
    Check,
    Claim,
    ClaimId,
    Forget,
    HalfAnswer,
    Held,
    HeldParked,
    Hold,
    KeepAlive,
    Marker,
    Parked,
    ParkedRef,
    Progress,
    Restate,
    Step,
    Tick,
)
from tests.properties.chance import Chance
from tests.properties.hold_log import ORDERS, START_MS

STEPS_MS = (0, 0, 1, 40, 100, 400, 1_000, 1_000, 2_000, 2_001, 9_000, -300)
LEASES_MS = (500, 0, 100, 3_000, 20_000)
AHEAD_MS = (0, 0, 300, 3_000)
HELD = (Action.REDELIVER, Action.BURY, Action.EXTEND, Action.CHECK, Action.RELEASE)
SOURCES = (
    ORDERS,
    ORDERS._replace(epoch=1),
    ORDERS._replace(subscription="audit"),
    ORDERS._replace(partition=1),
)
IDS = [ClaimId(worker, sequence) for worker in (1, 2, 3) for sequence in range(4)]


class AnyLog:
    """Writes a log record by record. A claim's id is always of the same claim."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self.records: list[Record] = []
        self._now = START_MS
        self._claims: dict[ClaimId, Claim] = {}
        self._refs: list[ParkedRef] = [ParkedRef(START_MS, 0)]
        self._restatement = Restate(0)
        self._last_words = Forget(())
        self._kinds: list[Callable[[], Marker | Parked | None]] = [
            Tick, self._claim, self._claim, self._claim, self._progress, self._progress,
            self._acked, self._beat, self._hold, self._hold, self._tracker_hold, self._park,
            self._ended_parked, self._hold_parked, self._answer, self._again,
            lambda: None, self._restated, self._forgotten,
        ]  # fmt: skip

    def write(self) -> Record:
        """One more record."""
        self._now += self._chance.pick(STEPS_MS)
        body = self._chance.pick(self._kinds)()
        record = Record(len(self.records), self._now, body)
        self.records.append(record)
        if isinstance(body, Parked):
            due_ms = self._now + body.delay_ms if body.delay_ms else body.due_ms
            self._refs.append(ParkedRef(due_ms, record.offset))
        return record

    def restate(self, state: State) -> None:
        """What the tracker knows now; it lands some records later, if at all."""
        self._restatement = restatement(state, self._chance.pick((0, 500, 5_000)))

    def forget(self, state: State) -> None:
        """The tracker learns that some topics are gone, and says so some records later."""
        ended = restatement(state).ended
        self._last_words = Forget(tuple(self._chance.some(ended)))

    def _claim(self) -> Claim:
        name = self._chance.pick(IDS)
        if name not in self._claims:
            start = self._chance.below(24)
            first = start + self._chance.pick((0, 0, 0, 1, 2))
            runs = [(first, 1 + self._chance.below(5))]
            if self._chance.below(3) == 2:
                runs.append((sum(runs[0]) + 1 + self._chance.below(2), 1 + self._chance.below(3)))
            source = self._chance.pick((ORDERS, ORDERS, ORDERS, ORDERS, *SOURCES))
            lease_ms = self._chance.pick(LEASES_MS)
            self._claims[name] = Claim(name, source, start, tuple(runs), lease_ms)
        return self._claims[name]

    def _name(self) -> ClaimId:
        return self._chance.pick([*self._claims, *self._claims, IDS[0]])

    def _indexes(self) -> int:
        return self._chance.pick((0b1, 0b11111111, 0b10, 0b101, 0b110, 0b1010))

    def _acked(self) -> Progress:
        return Progress((Step(self._name(), self._indexes()),))

    def _progress(self) -> Progress:
        steps = []
        for _ in range(1 + self._chance.below(2)):
            begun = Begun(
                self._indexes(),
                self._chance.pick(LEASES_MS),
                self._chance.pick((1, 1, 2, 3)),
                bool(self._chance.below(2)),
                self._chance.pick(AHEAD_MS),
            )
            ended = self._indexes() if self._chance.below(4) == 3 else 0
            steps.append(Step(self._name(), ended, (begun,)))
        return Progress(tuple(steps))

    def _beat(self) -> KeepAlive:
        worker = 1 + self._chance.below(3)
        return KeepAlive(worker, self._chance.pick(((0, 1, 2, 3), (0,), (1,), (2, 3))))

    def _hold(self, by_tracker: bool = False) -> Hold:
        held = Held(
            self._name(),
            self._indexes(),
            self._chance.pick(HELD),
            self._chance.pick(LEASES_MS),
            self._chance.pick(AHEAD_MS),
            self._chance.pick(("", "busy")),
        )
        return Hold((held,), by_tracker=by_tracker)

    def _tracker_hold(self) -> Hold:
        return self._hold(by_tracker=True)

    def _park(self) -> Parked:
        delay_ms = self._chance.pick((500, 0, 3_000, 90_000))
        due_ms = 0 if delay_ms else self._now + self._chance.pick((0, 700, 100_000))
        action = self._chance.pick((Action.RELEASE, Action.CHECK))
        return Parked(due_ms, delay_ms, self._chance.pick(AHEAD_MS), action)

    def _ended_parked(self) -> Progress:
        return Progress(parked=(self._chance.pick(self._refs[::-1]),))

    def _hold_parked(self) -> Hold:
        held = HeldParked(
            self._chance.pick(self._refs[::-1]),
            self._chance.pick((Action.CANCEL, *HELD)),
            self._chance.pick(LEASES_MS),
            self._chance.pick(AHEAD_MS),
            self._chance.pick(("", "late")),
        )
        return Hold(parked=(held,), by_tracker=bool(self._chance.below(2)))

    def _answer(self) -> HalfAnswer:
        halves = tuple(self._chance.some(self._refs[-2:]))
        verdict = self._chance.pick((Check.UNKNOWN, Check.COMMIT, Check.ROLLBACK))
        number = self._chance.pick((1, 0, 2, 3, 1 << 40))
        return HalfAnswer(halves, verdict, number, self._chance.pick(("", "no idea")))

    def _again(self) -> Marker | Parked | None:
        """A record sent twice: claims, progress, beats and holds, never a parked message."""
        markers = [
            r.body for r in self.records if not isinstance(r.body, Parked | Restate | Forget)
        ]
        return self._chance.pick(markers[::-1][:256]) if markers else None

    def _restated(self) -> Restate:
        said, self._restatement = self._restatement, Restate(0)
        return said

    def _forgotten(self) -> Forget:
        said, self._last_words = self._last_words, Forget(())
        self._restatement = Restate(0)  # one tracker writes: none made before lands after it
        return said
