"""A simulated world of half messages: a log, a database, an owner for each half, two members, an
operator, a tracker and its zombie. Whatever is written lands later, perhaps never; anybody stands
still between any two steps for as long as chance likes.

The database is the truth, by the recipe: a local transaction and a check that says no both insert
the half message's id, and only one of them can.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from marq.core.catalog.definitions import QueueDefinition
from marq.core.fate import act, halves
from marq.core.fate.redelivery import Context, Fate
from marq.core.fold.fold import Record, fold
from marq.core.fold.overdue import Due, emit
from marq.core.fold.restate import needed_from
from marq.core.fold.state import State
from marq.core.markers import codec
from marq.core.markers.marker import (
    Action,
    Check,
    HalfAnswer,
    HeldParked,
    Hold,
    Marker,
    ParkedRef,
    Progress,
    Tick,
)
from marq.core.messages import header
from marq.core.messages.header import NAME, Meta
from marq.core.messages.owned import Owned
from marq.core.messages.request import requested
from marq.core.messages.stored import Stored
from marq.core.messages.terms import HalfTerms
from tests.properties.chance import Chance
from tests.properties.hold_log import START_MS, blobs, loaded

AFTER_MS, EVERY_MS, MAX_CHECKS, GIVE_UP_MS = 400, 300, 3, 60_000
TERMS = HalfTerms("shop", "test", 1, AFTER_MS, EVERY_MS, MAX_CHECKS, GIVE_UP_MS)
META = Meta(queue="orders", half=TERMS)
PARKED = header.parked(header.decode(header.encode(META)))


class Crashed(Exception):
    """Whoever runs here is killed, or finds out that another one has taken over."""


@dataclass
class Sending:
    """A record on its way to the log."""

    body: Marker
    told: Callable[[int], None] = lambda at_ms: None
    """Called when the log has taken it, unless its writer never hears of it."""


@dataclass
class OwnersHalf:
    """A half message in its owner's hands."""

    number: int
    ref: ParkedRef | None = None
    owned: Owned | None = None
    phase: str = "sending"
    died: bool = False
    stood_still: bool = False
    """Between its final and the end: two finals may come of that."""
    extending: bool = False


@dataclass
class World:
    """What is written, and what is true."""

    chance: Chance
    now: int = START_MS
    log: list[Record] = field(default_factory=list)
    start: int = 0
    under_way: list[Sending] = field(default_factory=list)
    truth: State = field(default_factory=State)
    database: dict[int, bool] = field(default_factory=dict)
    """By half: whether its local transaction has happened; False: nor will it ever."""
    halves: list[OwnersHalf] = field(default_factory=list)
    offsets: dict[int, int] = field(default_factory=dict)
    """By offset the half's number."""
    finals: dict[int, list[str]] = field(default_factory=dict)
    letters: dict[int, str] = field(default_factory=dict)
    committed_at: dict[int, int] = field(default_factory=dict)
    """By half: where the first answer stands that says commit."""
    given_up_at: dict[int, int] = field(default_factory=dict)
    decided_at: dict[int, int] = field(default_factory=dict)
    """By half: the first record that decides it."""
    asked: dict[int, int] = field(default_factory=dict)
    """By half: the number of the last request."""
    unknown: dict[int, set[int]] = field(default_factory=dict)
    requests: list[tuple[int, int, ParkedRef]] = field(default_factory=list)
    lives_until: dict[int, int] = field(default_factory=dict)
    """By half: until when nobody may be asked, by what its owner wrote."""
    epoch: int = 0
    """Of the last tracker that opened the log's producer."""
    story: list[str] = field(default_factory=list)

    def append(self, body: Marker) -> Record:
        return self._append(Record(len(self.log), self.now, codec.decode(codec.encode(body))))

    def append_half(self, number: int) -> Record:
        record = self._append(Record(len(self.log), self.now, PARKED))
        self.offsets[record.offset] = number
        self.lives_until[number] = self.now + AFTER_MS
        return record

    def _append(self, record: Record) -> Record:
        self.story.append(f"{record.offset} at {record.at_ms - START_MS}: {record.body}")
        self.log.append(record)
        self._note(record)
        fold(self.truth, [record])
        return record

    def _note(self, record: Record) -> None:
        match record.body:
            case HalfAnswer() as answer:
                for number in self._known(answer.halves):
                    self._note_answer(number, answer, record)
            case Hold(parked=held, by_tracker=by_tracker):
                for item in held:
                    for number in self._known((item.ref,)):
                        self._note_hold(number, item, by_tracker, record)

    def _note_answer(self, number: int, answer: HalfAnswer, record: Record) -> None:
        if answer.verdict is Check.UNKNOWN:
            if answer.number <= self.asked.get(number, 0):
                self.unknown.setdefault(number, set()).add(answer.number)
            return
        self.decided_at.setdefault(number, record.offset)
        if answer.verdict is Check.COMMIT:
            self.committed_at.setdefault(number, record.offset)

    def _note_hold(self, number: int, item: HeldParked, by_tracker: bool, record: Record) -> None:
        if item.action is Action.BURY and by_tracker and number not in self.committed_at:
            self.given_up_at.setdefault(number, record.offset)
            self.decided_at.setdefault(number, record.offset)
        is_in_time = record.at_ms < self.lives_until[number]
        if item.action is Action.EXTEND and not by_tracker and is_in_time:
            self.lives_until[number] = record.at_ms + AFTER_MS

    def _known(self, refs: tuple[ParkedRef, ...]) -> list[int]:
        return [self.offsets[ref.offset] for ref in refs if ref.offset in self.offsets]

    def final(self, number: int, whose: str) -> None:
        assert self.database.get(number) is True, f"half {number} was rolled back, and has a final"
        self.finals.setdefault(number, []).append(whose)
        self.story.append(f"final of {number} by {whose}")

    # What is under way lands.

    def send(self, body: Marker, told: Callable[[int], None] = lambda at_ms: None) -> None:
        self.under_way.append(Sending(body, told))

    def land(self) -> None:
        """One of the records that are under way; its writer may never hear of it."""
        if not self.under_way:
            return
        sending = self.under_way.pop(self.chance.below(len(self.under_way)))
        how = self.chance.below(12)
        if how == 11:
            self.story.append(f"lost: {sending.body}")
            return
        self.append(sending.body)
        if how == 10 and isinstance(sending.body, HalfAnswer | Progress):
            self.append(sending.body)
        if how != 9:
            sending.told(self.now)

    def land_all(self) -> None:
        while self.under_way:
            sending = self.under_way.pop(0)
            self.append(sending.body)
            sending.told(self.now)

    # Laws.

    def check(self) -> None:
        for half in self.halves:
            finals = self.finals.get(half.number, [])
            if len(finals) > 1:
                assert finals.count("act") <= 1 and finals.count("owner") <= 1, "thrice"
                assert half.died or half.stood_still, f"two finals of {half.number}: {finals}"

    def check_asked(self, event: Due, looked_at: int) -> None:
        number = self.offsets[event.ref.offset]
        assert self.decided_at.get(number, looked_at) >= looked_at, "asked though it was decided"
        assert self.now >= self.lives_until[number], "asked though its owner said that it lives"

    def check_over(self) -> None:
        assert not len(self.truth.parked), f"open for ever: {list(self.truth.parked)}"
        for number, happened in self.database.items():
            if number not in self.offsets.values():
                continue  # its half was never in the log: no local transaction could have begun
            finals, letter = self.finals.get(number, []), self.letters.get(number)
            if happened:
                assert finals or letter, f"half {number} was committed and is lost"
            if number in self.given_up_at:
                assert "act" not in finals, "released after it was given up"
            if letter is not None and number in self.committed_at:
                given_up = self.given_up_at[number]
                assert self.committed_at[number] > given_up, "an answer in time did not count"


class Owners:
    """Those who send half messages; each half goes its own way."""

    def __init__(self, world: World, chance: Chance) -> None:
        self._world, self._chance = world, chance

    def begin(self) -> None:
        """Send a half message: it lands at once, or nobody will ever know that it did."""
        world = self._world
        half = OwnersHalf(len(world.halves))
        world.halves.append(half)
        how = self._chance.below(8)
        if how == 7:
            half.phase = "over"
            return
        record = world.append_half(half.number)
        if how == 6:
            half.phase, half.died = "over", True
            return
        half.ref = ParkedRef(record.at_ms + AFTER_MS, record.offset)
        half.owned = Owned(half.ref, record.at_ms + AFTER_MS)
        half.phase = "open"

    def step(self) -> None:
        """One of the open ones goes on."""
        alive = [half for half in self._world.halves if half.phase not in ("over", "waiting")]
        if alive:
            half = self._chance.pick(alive[::-1])
            {
                "open": self._transact,
                "happened": self._commit,
                "failed": self._roll_back,
                "final taken": self._end,
            }[half.phase](half)

    def _transact(self, half: OwnersHalf) -> None:
        happened = self._chance.below(4) > 0
        if happened:
            self._world.database.setdefault(half.number, True)
        half.phase = "happened" if self._world.database.get(half.number) else "failed"
        self._world.story.append(f"local transaction of {half.number}: {half.phase}")

    def _commit(self, half: OwnersHalf) -> None:
        world = self._world
        assert half.owned is not None and half.ref is not None
        half.phase = "waiting"
        if half.owned.lapsed(world.now):
            answer = HalfAnswer((half.ref,), Check.COMMIT)
            world.send(answer, lambda at_ms: self._over(half))
            half.died = True  # nobody says it again if that is lost: check-back does
            return
        how = self._chance.below(6)
        if how == 5:
            half.died = True  # of unknown outcome, and not in the log
            return
        assert not self._is_late(half), "a final although somebody may have been asked by now"
        world.final(half.number, "owner")
        if how == 4:
            half.died = True
            return
        half.phase = "final taken"

    def _end(self, half: OwnersHalf) -> None:
        assert half.ref is not None
        half.phase, half.stood_still = "waiting", half.stood_still or self._is_late(half)
        self._world.send(Progress(parked=(half.ref,)), lambda at_ms: self._ended(half))

    def _ended(self, half: OwnersHalf) -> None:
        half.phase = "over"

    def _over(self, half: OwnersHalf) -> None:
        half.phase = "over"

    def _is_late(self, half: OwnersHalf) -> bool:
        return self._world.now >= self._world.lives_until[half.number]

    def notice(self) -> None:
        """A final without its end when nobody is kept from being asked any more."""
        for half in self._world.halves:
            has_final = "owner" in self._world.finals.get(half.number, ())
            if has_final and half.phase != "over" and self._is_late(half):
                half.stood_still = True

    def _roll_back(self, half: OwnersHalf) -> None:
        assert half.ref is not None
        half.phase = "waiting"
        self._world.send(Progress(parked=(half.ref,)), lambda at_ms: self._over(half))

    def extend(self) -> None:
        """One record for all that are open."""
        mine = [h for h in self._world.halves if h.phase in ("open", "happened", "final taken")]
        mine = [half for half in mine if half.owned is not None and not half.died]
        if mine:
            refs = [half.ref for half in mine if half.ref is not None]
            held = tuple(HeldParked(ref, Action.EXTEND, AFTER_MS) for ref in refs)

            def told(at_ms: int) -> None:
                for half in mine:
                    if half.owned is not None:
                        half.owned.extended(at_ms, AFTER_MS)

            self._world.send(Hold(parked=held), told)

    def die(self) -> None:
        """The owner of one of them is killed."""
        alive = [half for half in self._world.halves if half.phase != "over"]
        if alive:
            half = self._chance.pick(alive[::-1])
            half.phase, half.died = "over", True
            self._world.story.append(f"the owner of {half.number} dies")


class Members:
    """Two members, who may look at any request at any time, and an operator."""

    def __init__(self, world: World, chance: Chance) -> None:
        self._world, self._chance = world, chance
        self._asked: list[list[tuple[int, int, ParkedRef]]] = [[], []]

    def take(self) -> None:
        """One of them takes a request, or it is lost."""
        if self._world.requests:
            request = self._world.requests.pop(self._chance.below(len(self._world.requests)))
            for member in self._chance.pick(((0,), (1,), (0, 1), ())):
                self._asked[member].append(request)

    def answer(self) -> None:
        asked = self._chance.pick(self._asked)
        if asked:
            number, count, ref = asked.pop()
            self._world.send(HalfAnswer((ref,), self.verdict(number), count, "no idea"))

    def operate(self) -> None:
        """An operator answers where nobody is alive to be in the way of."""
        refs = [entry.ref for entry in self._world.truth.parked]
        if refs:
            ref = self._chance.pick(refs)
            number = self._world.offsets[ref.offset]
            half = self._world.halves[number]
            half.died = True  # an operator who says commit beside its owner makes two of it
            self._world.send(HalfAnswer((ref,), self.verdict(number)))

    def forge(self) -> None:
        """A stranger writes what only the tracker may, or answers what nobody asked."""
        refs = [entry.ref for entry in self._world.truth.parked]
        if refs:
            ref = self._chance.pick(refs)
            action = self._chance.pick((Action.BURY, Action.CHECK, Action.RELEASE, Action.CANCEL))
            number = self._chance.pick((50, 7, 1 << 20, 1 << 40))
            forged: list[Marker] = [
                Hold(parked=(HeldParked(ref, action, 100),)),
                HalfAnswer((ref,), Check.UNKNOWN, number),
                HalfAnswer((ParkedRef(ref.due_ms, ref.offset + 5_000),), Check.COMMIT),
            ]
            self._world.append(self._chance.pick(forged))

    def verdict(self, number: int, knows: bool = False) -> Check:
        """By the recipe: whoever says no makes it so."""
        database = self._world.database
        if number not in database and not knows and self._chance.below(3):
            return Check.UNKNOWN
        said = Check.COMMIT if database.setdefault(number, False) else Check.ROLLBACK
        self._world.story.append(f"the check of {number} says {said}")
        return said

    def answer_all(self) -> None:
        for number, count, ref in self._world.requests:
            self._world.send(HalfAnswer((ref,), self.verdict(number, knows=True), count))
        self._world.requests.clear()


class Tracker:
    """Folds and acts; another one may do so at the same time, and each believes to be alone."""

    def __init__(self, world: World, chance: Chance) -> None:
        self._world, self._chance = world, chance
        self._checkpoint = blobs(State())
        self._rebuilt_at = 0
        self._folded, self._trim_to = self._checkpoint, 0
        self._acting: list[list[Due]] = []
        self._epoch, self._looked_at = -1, 0
        self.fragile = True

    def lose_checkpoint(self) -> None:
        self._checkpoint, self._acting = blobs(State()), []
        self._rebuilt_at = len(self._world.log)

    def behind(self) -> bool:
        return bool(self._acting) or (loaded(self._checkpoint).next_offset < len(self._world.log))

    def step(self) -> None:
        """Fold some of the log and look, or write one transaction of what is to be done."""
        try:
            self._write() if self._acting else self._look(1 + self._chance.below(8))
        except Crashed:
            self._acting = []
        if self.fragile and not self._chance.below(16):
            self._acting = []

    def _look(self, size: int) -> None:
        world, state = self._world, loaded(self._checkpoint)
        if state.next_offset < world.start:  # what it had not read yet was trimmed by another one
            self.lose_checkpoint()
            state = State()
        start = max(state.next_offset, world.start)
        end = min(len(world.log), start + size)
        fold(state, world.log[start:end])
        if state.next_offset < self._rebuilt_at:
            self._checkpoint = blobs(state)
            return
        events = [event for event in emit(state) if isinstance(event, Due)]
        world.epoch += 1  # opening fences whoever did before
        self._epoch, self._looked_at = world.epoch, len(world.log)
        tail = (record.body for record in world.log[state.next_offset :])
        standing = [event for event in act.standing(events, tail) if isinstance(event, Due)]
        self._acting = [[event] for event in standing]
        self._folded, self._trim_to = blobs(state), min(start, needed_from(state))
        self._conclude()

    def _conclude(self) -> None:
        """All is done: keep what was folded. Or the batch is run again, cut otherwise."""
        if not self._acting and (not self.fragile or self._chance.below(4)):
            self._checkpoint = self._folded
            self._world.start = max(self._world.start, self._trim_to)

    def _write(self) -> None:
        if self._world.epoch != self._epoch:
            raise Crashed
        events = self._acting.pop(0)
        if self.fragile and not self._chance.below(10):
            self._world.append(act.put_off(events, 200))
            return self._conclude()
        outcomes = [halves.decided(e, self._stored(e), TERMS, 0, self._context()) for e in events]
        for event, outcome in zip(events, outcomes, strict=True):
            self._perform(event, outcome.fate, outcome)
        said = zip(events, (outcome.hold for outcome in outcomes), strict=True)
        for marker in act.said(said):
            self._world.append(marker)
        self._conclude()

    def _perform(self, event: Due, fate: Fate, outcome: object) -> None:
        world, number = self._world, self._world.offsets[event.ref.offset]
        record = getattr(outcome, "record", None)
        if fate is Fate.COPIED:
            world.final(number, "act")
        if fate is Fate.BURIED:
            assert number not in world.letters, "buried twice"
            asked = len(world.unknown.get(number, ()))
            is_old = self._context().clock_ms - self._stored(event).at_ms >= GIVE_UP_MS
            assert asked >= MAX_CHECKS or is_old, "given up though few were asked"
            world.letters[number] = str(record)
        if fate is Fate.ASKED and record is not None:
            world.check_asked(event, self._looked_at)
            found, _ = requested(record.key, record.headers)
            assert found.number > world.asked.get(number, 0), "asked twice for one"
            world.asked[number] = found.number
            world.requests.append((number, found.number, found.ref))

    def _stored(self, event: Due) -> Stored:
        record = self._world.log[event.ref.offset]
        headers = ((NAME, header.encode(META)),)
        return Stored("marq.delayed", 0, event.ref.offset, record.at_ms, None, b"", headers)

    def _context(self) -> Context:
        definition = QueueDefinition()
        clock_ms = self._world.now
        return Context("orders", definition, clock_ms, 0.0, made=1, checks="marq.checks.shop")


class History:
    """A world in which things happen by chance."""

    def __init__(self, chance: Chance) -> None:
        self.chance = chance
        self.world = World(chance)
        self.owners = Owners(self.world, chance)
        self.members = Members(self.world, chance)
        self.tracker, self.zombie = Tracker(self.world, chance), Tracker(self.world, chance)
        self._happenings: list[tuple[int, Callable[[], object]]] = [
            (6, self.owners.begin),
            (22, self.owners.step),
            (12, self.owners.extend),
            (2, self.owners.die),
            (30, self.world.land),
            (26, self.tracker.step),
            (6, self.zombie.step),
            (1, self.tracker.lose_checkpoint),
            (12, self.members.take),
            (16, self.members.answer),
            (1, self.members.operate),
            (3, self.members.forge),
            (24, self.time_passes),
            (2, self.nothing_for_a_while),
        ]
        self._weights = [n for n, (weight, _) in enumerate(self._happenings) for _ in range(weight)]

    def run(self) -> None:
        for _ in range(2):
            self.owners.begin()
        while self.chance.left():
            self._happenings[self.chance.pick(self._weights)][1]()
            self.owners.notice()
            self.world.check()

    def time_passes(self) -> None:
        self.world.now += self.chance.pick((10, 60, 150))
        self.world.append(Tick())

    def nothing_for_a_while(self) -> None:
        self.world.now += self.chance.pick((700, 5_000, GIVE_UP_MS))
        self.world.append(Tick())
        self.owners.notice()

    def calm_down(self) -> None:
        """All owners are killed; members who know answer whatever they are asked."""
        for half in self.world.halves:
            half.died, half.phase = True, "over"
        self.world.land_all()
        self.tracker.fragile = False
        for _ in range(40):
            self.world.now += 2_000
            self.world.append(Tick())
            for _ in range(400):
                self.tracker.step()
                if not self.tracker.behind():
                    break
            self.members.answer_all()
            self.world.land_all()
            self.world.check()
