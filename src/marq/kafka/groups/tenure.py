"""One partition in the hands of one owner, from its start to its release or loss."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from marq.core.messages.stored import Outgoing
from marq.errors import AlreadySettled, Fenced, LeaseLost
from marq.groups.output import Output
from marq.kafka.groups.delivery import KafkaGroupDelivery
from marq.kafka.groups.note import Note


class Claimant(Protocol):
    """Who holds the claim that a tenure belongs to."""

    ack_wait_s: float

    @property
    def letter(self) -> Callable[[KafkaGroupDelivery, str], Outgoing | None]: ...

    @property
    def moved(self) -> Callable[[], None]: ...

    def dirty(self) -> None:
        """Something is to be committed."""
        ...

    def double_ack(
        self, tenure: Tenure, delivery: KafkaGroupDelivery, outputs: list[Outgoing]
    ) -> None: ...


class Tenure:
    """What was handed out of a partition, and up to where it is done without a gap."""

    def __init__(self, owner: Claimant, partition: int, fence: int, start: int, note: Note) -> None:
        self.partition = partition
        self.fence = fence
        self.watermark = start
        """All below is done."""
        self.committed = start
        self.note: Note | None = note
        """Until the first message is handed out."""
        self.inbox: deque[Any] = deque()
        self.open = True
        """Hands out messages."""
        self.closed = False
        """Takes no more acks."""
        self.not_before_s = 0.0
        self.attempts: dict[int, int] = {}
        self.last_commit_s = time.monotonic()
        self._owner = owner
        self._handed: dict[int, KafkaGroupDelivery] = {}
        """In order: what is not done, or done behind something that is not."""
        self._letters: list[tuple[int, Outgoing]] = []
        self._put_backs = self._seen = 0
        """How often something was put back, and how often when the hand last took a message."""
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0

    # For the hand: it takes a message, and says what becomes of it. What any thread puts back in
    # between comes before that message, so then it is taken again, in its turn.

    def take(self) -> Any:
        """The next message; `IndexError` if there is none."""
        self._seen = self._put_backs  # first: half of what is put back may be there already
        return self.inbox.popleft()

    def _is_its_turn(self, message: Any) -> bool:
        if self._seen == self._put_backs:
            return self.open
        self._wait_in_turn(message)
        return False

    def _wait_in_turn(self, message: Any) -> None:
        if not self.open:
            return
        before = []
        while self.inbox and self.inbox[0].offset() < message.offset():
            before.append(self.inbox.popleft())
        self.inbox.extendleft([message, *reversed(before)])

    def begin(self, message: Any, attempt: int) -> KafkaGroupDelivery | None:
        """Hand a message out; None if it is not its turn, or the partition is being given up."""
        delivery = KafkaGroupDelivery(self, message, attempt)
        with self._lock:
            if not self._is_its_turn(message):
                return None
            self._handed[delivery.offset] = delivery
        return delivery

    @property
    def busy(self) -> bool:
        """Whether something handed out is not settled."""
        with self._lock:
            return any(not each.settled for each in self._handed.values())

    def skip(self, message: Any, letter: Outgoing | None) -> None:
        """Done without being handed out: a dead letter, or nothing."""
        with self._lock:
            if not self._is_its_turn(message):
                return
            delivery = KafkaGroupDelivery(self, message, 0)
            self._handed[delivery.offset] = delivery
            self._done(delivery, letter)
        self._owner.dirty()

    def wait(self, message: Any, seconds: float) -> None:
        """It is not due yet: neither it nor what follows is handed out meanwhile."""
        with self._lock:
            if self._is_its_turn(message):
                self._wait_in_turn(message)
                self.not_before_s = time.monotonic() + seconds

    def reached(self, mark: Any) -> None:
        """Nothing is left below this mark: what lies there are marks of transactions. It comes
        through the inbox, behind all messages below it, or it would ack one that is on its way
        out."""
        end = mark.offset()
        with self._lock:
            if not self._is_its_turn(mark) or self._handed or end <= self.watermark:
                return
            self.watermark = end
        self._owner.dirty()

    # For the handler.

    def ack(self, delivery: KafkaGroupDelivery) -> None:
        with self._lock:
            self._refuse(delivery)
            self._done(delivery)
        self._owner.dirty()

    def double_ack(self, delivery: KafkaGroupDelivery, outputs: Iterable[Output]) -> None:
        self._owner.double_ack(self, delivery, [each.outgoing() for each in outputs])

    def term(self, delivery: KafkaGroupDelivery, reason: str) -> None:
        letter = self._owner.letter(delivery, reason)
        with self._lock:
            self._refuse(delivery)
            self._done(delivery, letter)
        self._owner.dirty()

    def nak(self, delivery: KafkaGroupDelivery, delay_ms: int, reason: str) -> None:
        with self._lock:
            self._refuse(delivery)
            self._put_back(delivery, delay_ms / 1_000)
        self._owner.moved()

    def in_progress(self, delivery: KafkaGroupDelivery) -> None:
        with self._lock:
            self._refuse(delivery)
            delivery.deadline_s = time.monotonic() + self._owner.ack_wait_s

    def _refuse(self, delivery: KafkaGroupDelivery) -> None:
        if self.closed:
            raise fenced(delivery)
        if delivery.settled:
            raise AlreadySettled(
                f"message {delivery.message_id} is settled already", message_id=delivery.message_id
            )
        if self._handed.get(delivery.offset) is not delivery:
            raise LeaseLost(
                f"message {delivery.message_id} was not settled within ack_wait, or one before it "
                f"was put back: it is delivered again",
                message_id=delivery.message_id,
            )

    def _done(self, delivery: KafkaGroupDelivery, letter: Outgoing | None = None) -> None:
        delivery.settled = True
        if letter is not None:
            self._letters.append((delivery.offset, letter))
        handed = self._handed
        while handed:
            offset = next(iter(handed))
            if not handed[offset].settled:
                break
            del handed[offset]
            self.watermark = offset + 1
        if self.attempts:
            self.attempts.pop(delivery.offset, None)
        if self._waiting:
            self._changed.notify_all()

    def _put_back(self, delivery: KafkaGroupDelivery, delay_s: float) -> None:
        """With all behind it, so that nothing overtakes it: their deliveries are void."""
        at = delivery.offset
        again = [each for offset, each in self._handed.items() if offset >= at]
        for each in again:
            del self._handed[each.offset]
        self._letters = [each for each in self._letters if each[0] < at]
        self.inbox.extendleft(each._message for each in reversed(again))
        self.attempts[at] = delivery.attempt + 1
        self.not_before_s = time.monotonic() + delay_s
        self._put_backs += (
            1  # last: a thread that took one of them from the inbox meanwhile must see it
        )
        self._changed.notify_all()

    def expire(self, delivery: KafkaGroupDelivery) -> bool:
        """Put back what was not settled in time; whether it is no longer open. The time starts when
        its handler has returned: while that runs, nobody else could have the message."""
        with self._lock:
            if delivery.settled or self.closed or self._handed.get(delivery.offset) is not delivery:
                return True
            if not delivery.deadline_s:
                delivery.deadline_s = time.monotonic() + self._owner.ack_wait_s
            if time.monotonic() < delivery.deadline_s:
                return False
            self._put_back(delivery, 0.0)
            return True

    # For the owner.

    def wait_for_turn(self, delivery: KafkaGroupDelivery) -> None:
        """Wait until all before it is done; from then on it does not expire."""
        with self._lock:
            while True:
                self._refuse(delivery)
                if next(iter(self._handed)) == delivery.offset:
                    delivery.deadline_s = math.inf
                    return
                self._waiting += 1
                self._changed.wait(0.1)
                self._waiting -= 1

    def finish(self, delivery: KafkaGroupDelivery) -> None:
        """It was committed."""
        with self._lock:
            self._done(delivery)
            self.committed = max(self.committed, delivery.offset + 1)

    def letters(self, below: int) -> list[Outgoing]:
        """Dead letters that go with the acks below an offset."""
        return [letter for offset, letter in self._letters if offset < below]

    def commits(self, watermark: int) -> None:
        """All below was committed."""
        with self._lock:
            self._letters = [each for each in self._letters if each[0] >= watermark]
            self.committed = max(self.committed, watermark)
            self.last_commit_s = time.monotonic()

    def stop(self) -> None:
        """Hand out nothing more."""
        with self._lock:
            self.open = False
            self.inbox.clear()

    def close(self) -> None:
        """Take no more acks."""
        with self._lock:
            self.open, self.closed = False, True
            self.inbox.clear()
            self._changed.notify_all()


def fenced(delivery: KafkaGroupDelivery) -> Fenced:
    """Someone else has the message's partition."""
    return Fenced(
        f"message {delivery.message_id} belongs to another owner now: roll back what you did",
        message_id=delivery.message_id,
    )
