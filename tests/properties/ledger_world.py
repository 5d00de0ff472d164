"""A ledger and the log it writes to: records land late, twice or never, and time goes by."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, NamedTuple, cast

from marq.core.catalog.definitions import QueueDefinition
from marq.core.fate import act, settling
from marq.core.fold.fold import GRACE_MS, JUMP_MS, Record, fold
from marq.core.fold.overdue import Overdue, emit
from marq.core.fold.state import State
from marq.core.markers import claimed, codec
from marq.core.markers.marker import Claim, ClaimId, Marker, Source, Tick
from marq.kafka.client.answers import Answer, WaitingRoom
from marq.kafka.leasing.append_time import AppendTime
from marq.kafka.leasing.handout import Handout, Lease
from marq.kafka.leasing.home import Home
from marq.kafka.leasing.ledger import Ledger, reported
from marq.kafka.leasing.live import LiveClaim
from marq.kafka.leasing.statements import marker

START_MS = 1_000_000
PUMP_LEASE_MS = 2_500
QUEUE = QueueDefinition(max_attempts=5, lease_ms=1_000)
SOURCE = Source(bytes(16), 0, "orders", "", 0)


class Clock:
    """The log's clock, as well as this process knows it: exactly."""

    recent_ms = START_MS


class Inbox:
    """As much of an inbox as its handouts need."""

    queue = "orders"
    settled = 0


class Hand:
    """A message in someone's hands."""

    def __init__(self, handout: Handout, index: int) -> None:
        self.handout = handout
        self.index = index
        self.settled = False

    @property
    def offset(self) -> int:
        return self.handout.claim.start + self.index


class Pending(NamedTuple):
    """A record on its way to the log."""

    marker: Marker
    heard: Callable[[AppendTime | None], object]


class Ended(NamedTuple):
    """An ack, and what is said of it."""

    offset: int
    receipt: Answer[None]


class LedgerWorld:
    """One worker, one markers partition, and a tracker that gives away what is overdue."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.waiting_room = WaitingRoom()
        self.ledger = Ledger(0, cast(Any, _Writer(self.clock, self.waiting_room)))
        self.home = cast(Home, Inbox())
        self.state = State()
        self.given_away: set[int] = set()
        self.pending: deque[Pending] = deque()
        self.unheard: deque[Callable[[], object]] = deque()
        self.lives: list[LiveClaim] = []
        self.waiting: dict[LiveClaim, list[int]] = {}
        self.hands: list[Hand] = []
        self.acks: list[Ended] = []
        self.receipts: list[Answer[None]] = []
        self.extensions: list[tuple[int, Answer[None]]] = []
        self._offset = count()
        self._sequence = count(1)
        self._next = 0
        for at_ms in range(START_MS - GRACE_MS - 2 * JUMP_MS, START_MS, JUMP_MS // 2):
            self._append(Tick(), at_ms)

    @property
    def now_ms(self) -> int:
        return self.clock.recent_ms

    # The log.

    def _append(self, marker: Marker, at_ms: int) -> None:
        body = codec.decode(codec.encode(marker))
        fold(self.state, [Record(next(self._offset), at_ms, body)])

    def time_passes(self, ms: int) -> None:
        """A tick comes at least as often as the fold's clock needs one."""
        while ms > 0:
            step = min(ms, JUMP_MS // 2)
            ms -= step
            self.clock.recent_ms += step
            self._append(Tick(), self.now_ms)
            self.give_away()

    def give_away(self) -> None:
        """The tracker acts on what is overdue: someone else has it from now on."""
        events = emit(self.state)
        if events:
            self.given_away |= {each.offset for each in events if isinstance(each, Overdue)}
            self._append(act.ends(events), self.now_ms)

    def land(self, times: int) -> None:
        """The oldest record reaches the log: once, twice, or (0) never."""
        if not self.pending:
            return
        record = self.pending.popleft()
        for _ in range(times):
            self._append(record.marker, self.now_ms)
        taken = AppendTime.at(self.now_ms) if times else None
        self.unheard.append(lambda: record.heard(taken))

    def hear(self) -> None:
        """The process hears of the oldest record that landed."""
        if self.unheard:
            self.unheard.popleft()()

    def open(self) -> set[int]:
        """The offsets that are open by the log."""
        return {
            offset
            for claim in self.state.claims.values()
            for offset, _ in claimed.offsets(claim.runs, claim.open)
        }

    # The process.

    def claim(self, number: int) -> None:
        start, self._next = self._next, self._next + number
        claim_id = ClaimId(7, next(self._sequence))
        made = Claim(claim_id, SOURCE, start, ((start, number),), PUMP_LEASE_MS)
        live = self.ledger.claim(made, [None] * number, start + number)

        def heard(taken: AppendTime | None) -> None:
            live.answered(taken)
            if not live.failed:
                live.committed()
                self.lives.append(live)
                self.waiting[live] = list(range(number))

        self.pending.append(Pending(made, heard))

    def hand_out(self, live: LiveClaim, number: int, lease_ms: int, kept_alive: bool) -> None:
        """As the inbox does: what has lapsed while it waited is dropped."""
        indexes, self.waiting[live] = self.waiting[live][:number], self.waiting[live][number:]
        if not indexes:
            return
        if live.lapse_ms <= self.now_ms:
            live.drop(len(indexes))
            return
        mask = sum(1 << index for index in indexes)
        handout = Handout(self.home, live, mask, len(indexes), 1)
        ahead_ms = settling.ahead_ms(lease_ms, kept_alive)
        lease = Lease(lease_ms, ahead_ms, kept_alive)
        handout.start(lease, self.now_ms + lease_ms - ahead_ms)
        self.hands += [Hand(handout, index) for index in indexes]

    def usable(self) -> Iterator[Hand]:
        """What may be settled: a delivery refuses what its own books say is lost."""
        return (
            hand for hand in self.hands if not hand.settled and hand.handout.lapse_ms > self.now_ms
        )

    def ack(self, hand: Hand) -> None:
        hand.settled = True
        receipt = hand.handout.end(hand.index)
        self.acks.append(Ended(hand.offset, receipt))
        self.receipts.append(receipt)

    def retry(self, hand: Hand) -> None:
        hand.settled = True
        claim = hand.handout.claim.claim.id
        held = settling.retried(claim, 1 << hand.index, 1, 60_000, "busy", QUEUE)
        self.receipts.append(hand.handout.hold(held, leaves=True))

    def reject(self, hand: Hand) -> None:
        hand.settled = True
        held = settling.rejected(hand.handout.claim.claim.id, 1 << hand.index, "no")
        self.receipts.append(hand.handout.hold(held, leaves=True))

    def extend(self, hand: Hand, duration_ms: int) -> None:
        claim = hand.handout.claim.claim.id
        held = settling.extended(claim, 1 << hand.index, duration_ms)
        hand.handout = hand.handout.split(hand.index, self.now_ms + duration_ms)
        receipt = hand.handout.hold(held, leaves=False)
        self.extensions.append((hand.offset, receipt))
        self.receipts.append(receipt)

    def let_go(self, hand: Hand) -> None:
        hand.settled = True
        hand.handout.let_go()

    def give_back(self, live: LiveClaim) -> None:
        """As on leaving: copies of what waits are in the log already, so it ends here."""
        indexes, self.waiting[live] = self.waiting[live], []
        for index in indexes:
            self.receipts.append(Handout.aside(self.home, live).end(index))

    def flush(self) -> None:
        while self.ledger.dirty:
            for statements in self.ledger.collect():
                self.pending.append(
                    Pending(
                        marker(statements),
                        lambda taken, said=statements: reported(said, taken),  # type: ignore[misc]
                    )
                )

    def beat(self) -> None:
        beat = self.ledger.beat(self.now_ms)
        if beat is not None:
            self.pending.append(
                Pending(beat.marker, lambda taken: beat.appended(taken) if taken else None)
            )

    # What the ledger says.

    def says_ours(self) -> set[int]:
        """What is in someone's hands by the ledger's word, and not yet over by its clock."""
        return {hand.offset for hand in self.usable() if self._is_sure(hand)}

    def _is_sure(self, hand: Hand) -> bool:
        handout = hand.handout
        is_begun = handout.begun_known or handout.begin_by() > self.now_ms
        return is_begun and handout.certain_ms > self.now_ms


class _Writer:
    def __init__(self, clock: Clock, waiting: WaitingRoom) -> None:
        self.clock = clock
        self.waiting = waiting

    def wake(self) -> None: ...

    def beat_within(self, lease_ms: int) -> None: ...
