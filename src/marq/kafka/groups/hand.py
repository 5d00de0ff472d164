"""Hands hand messages to the handler: one after the other, partition by partition in order.

One hand for all partitions of a member, or one for each: more at once, the same order.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import Any

from marq import threads
from marq.core.messages import header
from marq.groups import routing
from marq.groups.config import GroupConfig
from marq.kafka.client.record import headers
from marq.kafka.groups.delivery import KafkaGroupDelivery
from marq.kafka.groups.owner import Owner
from marq.kafka.groups.plan import Handling
from marq.kafka.groups.tenure import Tenure
from marq.kafka.groups.transactions import ProducerLost

log = logging.getLogger("marq.groups")

_TURN = 256
"""Messages of one partition before the next has its turn."""
_FAILED_MS = 1_000
"""How long a message waits whose handler raised."""
_IDLE_S = 0.1


class Hand:
    """One thread, and the tenures it serves in turn."""

    def __init__(self, config: GroupConfig, owner: Owner, plan: Handling, name: str) -> None:
        self._most = config.max_deliver
        self._limit = config.max_ack_pending
        self._owner = owner
        self._plan = plan
        self._tenures: list[Tenure] = []
        self._unsettled: list[tuple[Tenure, KafkaGroupDelivery]] = []
        """Handed out, handler returned, neither acked nor put back."""
        self._woken = threading.Event()
        self._closing = False
        self.idle = False
        """Whether it is worth being woken."""
        self._thread = threads.start(self._run, name, lambda error: owner.failed(error))

    def serve(self, tenure: Tenure) -> None:
        self._tenures = [each for each in self._tenures if not each.closed] + [tenure]
        self.wake()

    def wake(self) -> None:
        """There may be something to do."""
        self._woken.set()

    def close(self) -> None:
        """Stop after the message in hand; does not wait for it."""
        self._closing = True
        self.wake()

    def _run(self) -> None:
        while not self._closing:
            if self._serve_all():
                continue
            self._woken.clear()
            self.idle = True
            # Once more: what happened before this was set has woken nobody.
            if not self._serve_all():
                self._woken.wait(_IDLE_S)
            self.idle = False

    def _serve_all(self) -> bool:
        """Whether there was anything to do."""
        served = False
        for tenure in self._tenures:
            if self._has_room() and self._is_ready(tenure):
                served = True
                self._turn(tenure)
        return served

    def _has_room(self) -> bool:
        if self._unsettled:
            self._unsettled = [each for each in self._unsettled if not each[0].expire(each[1])]
        return len(self._unsettled) < self._limit

    def _is_ready(self, tenure: Tenure) -> bool:
        if tenure.not_before_s and tenure.not_before_s <= time.monotonic():
            tenure.not_before_s = 0.0
        return bool(tenure.inbox and tenure.open and not tenure.not_before_s)

    def _turn(self, tenure: Tenure) -> None:
        for _ in range(_TURN):
            if self._closing or tenure.not_before_s or (self._unsettled and not self._has_room()):
                return
            try:
                message = tenure.take()
            except IndexError:
                return
            if message.error() is None:
                self._hand_out(tenure, message)
            else:
                tenure.reached(message)

    def _hand_out(self, tenure: Tenure, message: Any) -> None:
        found = headers(message)
        if found and routing.says_more(found[0]) and not self._is_wanted(tenure, message):
            return
        attempt = tenure.attempts.get(message.offset(), 1) if tenure.attempts else 1
        if tenure.note is not None:
            attempt = self._first(tenure, message)
        if self._most and attempt > self._most:
            return self._bury(tenure, message, attempt - 1, f"max deliver ({self._most}) reached")
        delivery = tenure.begin(message, attempt)
        if delivery is not None:
            self._handle(tenure, delivery)

    def _first(self, tenure: Tenure, message: Any) -> int:
        """Which attempt the first message of a tenure is; one that is suspect is noted before it
        begins, in case it ends the process."""
        note, tenure.note = tenure.note, None
        if note is None or not note.is_suspect:
            return 1
        begun = note._replace(begun=note.begun + 1)
        tenure.attempts[message.offset()] = begun.begun
        if not self._most or begun.begun <= self._most:
            with contextlib.suppress(ProducerLost):  # then nothing is handed out any more
                self._owner.note(tenure, begun.text)
        return begun.begun

    def _is_wanted(self, tenure: Tenure, message: Any) -> bool:
        """Whether it is for groups, due and not expired."""
        meta = header.split(headers(message))[0]
        if routing.is_copy(meta):  # in a queue that a static group reads itself
            tenure.skip(message, None)
            return False
        at_ms = message.timestamp()[1]
        due_ms, expires_ms = routing.due_at(meta, at_ms), meta.expires_at(at_ms)
        if not due_ms and not expires_ms:
            return True
        now_ms = self._plan.now_ms()
        if expires_ms and expires_ms <= now_ms:
            self._bury(tenure, message, 0, "expired: its ttl was over")
            return False
        if due_ms > now_ms:
            tenure.wait(message, min(1.0, (due_ms - now_ms) / 1_000))
            return False
        return True

    def _bury(self, tenure: Tenure, message: Any, attempts: int, reason: str) -> None:
        dead = KafkaGroupDelivery(tenure, message, attempts)
        tenure.skip(message, self._owner.letter(dead, reason))

    def _handle(self, tenure: Tenure, delivery: KafkaGroupDelivery) -> None:
        try:
            self._plan.handler(delivery)
            if self._plan.acks_on_return and not delivery.settled:
                delivery.ack()
        except Exception as error:
            self._failed(delivery, error)
        if not delivery.settled and not tenure.expire(delivery):
            self._unsettled.append((tenure, delivery))

    def _failed(self, delivery: KafkaGroupDelivery, error: Exception) -> None:
        log.warning(
            "a handler failed",
            extra={"message_id": delivery.message_id, "attempt": delivery.attempt},
            exc_info=error,
        )
        if not delivery.settled:
            try:
                delivery.nak(_FAILED_MS / 1_000, f"{type(error).__name__}: {error}")
            except Exception as refused:  # fenced, or put back already: it is someone's again
                log.info("the message is delivered again", extra={"reason": str(refused)})
