"""One instance of a member: a thread that follows the group's log, decides and performs."""

from __future__ import annotations

import logging
import queue
import random
import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from uuid import uuid4

from marq import forks, threads
from marq.errors import ConfigError, QueueError
from marq.groups import moves
from marq.groups.moves import InstanceAction, InstanceEvent, Why
from marq.groups.names import GroupNames
from marq.groups.protocol import decide
from marq.groups.records import LeaseBeat
from marq.groups.state import InstanceState, Phase
from marq.kafka.groups.clients import GroupClients
from marq.kafka.groups.log import GroupLog, now_ms
from marq.kafka.groups.performer import Performer
from marq.kafka.groups.plan import Handling
from marq.member import Instance

log = logging.getLogger("marq.groups")

_TURN_S = 0.02
_JITTER_MS = 50
_STEPPED_DOWN_MS = 1_000


class KafkaInstance(Instance):
    """A thread, and what it decides by."""

    def __init__(
        self, cluster: GroupClients, names: GroupNames, member: str, plan: Handling
    ) -> None:
        self.member = member
        self.id = uuid4().hex
        self._cluster = cluster
        self._names = names
        self._plan = plan
        self._state = InstanceState(member, self.id)
        self._posted: queue.SimpleQueue[InstanceEvent] = queue.SimpleQueue()
        """From other threads."""
        self._heard: deque[InstanceEvent] = deque()
        self._is_deciding = False
        self._was_active = False
        self._chance = random.Random()
        self._candidate_ms = self._beat_ms = 0
        self._looked_ms = 1 << 62
        self._error: BaseException | None = None
        self._over = threading.Event()
        self._changed = threading.Condition()
        forks.tell(self)
        self._thread = threads.start(self._run, f"marq-group-{member}", self._died)

    def forked(self) -> None:
        """In a child nothing of it runs, and nothing of it ends."""
        self._error = ConfigError(
            "this instance runs in the process that this one was forked from: start another here"
        )
        self._changed, self._over = threading.Condition(), threading.Event()
        self._over.set()

    @property
    def is_active(self) -> bool:
        return self._state.phase in (Phase.ACTIVE, Phase.LEAVING)

    @property
    def partitions(self) -> frozenset[int]:
        return self._state.running

    @property
    def ended(self) -> bool:
        return self._over.is_set()

    def wait_until(self, true: Callable[[], bool], timeout: float) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: true() or self.ended, timeout)
        return true()

    def stop(self) -> None:
        self._posted.put(moves.Leave())
        if threading.current_thread() is not self._thread:
            self._over.wait()

    def wait(self, timeout: float | None = None) -> bool:
        done = self._over.wait(timeout)
        if self._error is not None:
            raise self._error
        return done

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if error is None and self._error is not None:
            raise self._error

    def fail(self, error: BaseException) -> None:
        """End with this error: something it cannot do without is no more. Called by any thread."""
        if not self.ended:
            self._error = self._error or error
            self._posted.put(moves.Leave())

    # The thread.

    def _run(self) -> None:
        try:
            self._log = GroupLog(self._cluster, self._names)
            try:
                self._follow()
            finally:
                self._log.close()
        except QueueError as error:
            log.warning("an instance failed", extra={"member": self.member, "why": str(error)})
            self._error = self._error or error
        self._end()

    def _died(self, error: BaseException) -> None:
        self._error = self._error or error
        self._end()

    def _end(self) -> None:
        self._over.set()
        self._tell()

    def _follow(self) -> None:
        if self._log.catch_up().config is None:
            raise ConfigError(f"there is no group {self._names.group!r}: create it first")
        self._performer = Performer(self._cluster, self._names, self.member, self._log, self._plan)
        self._performer.hear, self._performer.post = self._hear, self._posted.put
        self._performer.failed = self.fail
        try:
            self._hear(moves.Follow(self._log.table))
            while self._state.phase is not Phase.ENDED and not self._log.gone:
                self._turn()
        finally:
            self._performer.close()
            self._deactivated()

    def _turn(self) -> None:
        if self._log.follow(_TURN_S):
            self._hear(moves.Follow(self._log.table))
        while not self._posted.empty():
            self._hear(self._posted.get())
        self._beat()
        self._performer.finish_drains()
        self._look_for_work()

    def _hear(self, event: InstanceEvent) -> None:
        """Decide about an event. What comes of its actions is heard after all of them are done."""
        self._heard.append(event)
        if not self._is_deciding:
            self._is_deciding = True
            try:
                while self._heard:
                    self._decide(self._heard.popleft())
            finally:
                self._is_deciding = False

    def _decide(self, event: InstanceEvent) -> None:
        before = self._state.phase
        self._state, actions = decide(self._state, event)
        if self._state.phase is not before:
            about = {"member": self.member, "instance": self.id, "phase": self._state.phase}
            log.info("an instance moved on", extra=about)
            if self._state.phase is Phase.ACTIVE:
                self._activated()
        for action in actions:
            self._perform(action)
        self._tell()

    def _perform(self, action: InstanceAction) -> None:
        match action:
            case moves.Resign(claim):
                self._log.beat(LeaseBeat(self.member, claim, self.id, resigned=True))
            case moves.StandBy(why):
                self._rest(why)
            case moves.End(error):
                self._error = self._error or (ConfigError(error) if error else None)
            case moves.Discard():
                self._performer.perform(action)
                self._deactivated()
            case _:
                self._performer.perform(action)

    def _activated(self) -> None:
        self._was_active = True
        self._beat_ms = 0
        self._beat()
        self._plan.on_activate(self)

    def _deactivated(self) -> None:
        if self._was_active:
            self._was_active = False
            self._plan.on_deactivate(self)

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()

    # Leases and timers.

    def _beat(self) -> None:
        if self.is_active and now_ms() >= self._beat_ms:
            self._beat_ms = now_ms() + self._performer.config.lease_ms // 4
            self._log.beat(LeaseBeat(self.member, self._state.claim, self.id))

    def _look_for_work(self) -> None:
        now, watch = now_ms(), self._log.watch
        lease_ms = self._performer.config.lease_ms
        if now - self._looked_ms > lease_ms // 2:
            # We were away ourselves: beats may wait in a socket that nobody has read yet.
            self._candidate_ms = max(self._candidate_ms, now + lease_ms // 2)
        self._looked_ms = now
        if self._state.is_candidate:
            self._performer.prepare()
            if now >= self._candidate_ms and not watch.is_live(self.member, now):
                self._claim(now)
        elif self._state.phase is Phase.ACTIVE and not self._state.proxy:
            other = watch.overdue(self.member, now)
            if other is not None:
                self._hear(moves.MemberOverdue(other, uuid4().hex))

    def _claim(self, now: int) -> None:
        """Two candidates would fence each other: each waits for a random moment first."""
        if not self._candidate_ms:
            self._candidate_ms = now + self._chance.randrange(_JITTER_MS)
            return
        self._candidate_ms = 0
        self._hear(moves.Lapsed(uuid4().hex))

    def _rest(self, why: Why) -> None:
        wait_ms = {
            Why.LOST: self._chance.randrange(50, 300),
            Why.FENCED: self._performer.config.lease_ms,
            Why.STEPPED_DOWN: _STEPPED_DOWN_MS,
            Why.DROPPED: 0,
        }
        self._candidate_ms = now_ms() + wait_ms[why]
