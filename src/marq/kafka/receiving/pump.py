"""The pump: a queue's consumer in this process, and who turns it.

Whoever takes messages fast turns it himself, in passing: he polls, claims and commits the next ones
while what is there already is handed out to him. With a thread for it, the two passed the
interpreter to and fro, and each message cost half as much again. The pump's own thread turns it
while nobody takes, while little comes in, and while takers are busy with what they have: rebalances
are served and beats go on whatever they do. It joins the group when someone wants messages, and
leaves it.

One thread uses the consumer at a time (`helm.py`): librdkafka's consumer is locked while it polls,
and a commit from another thread waits for ever where nothing comes in.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time

from marq import threads
from marq.errors import NotConnected, QueueError
from marq.kafka.receiving.helm import Helm
from marq.kafka.receiving.prefetch import Prefetch
from marq.kafka.receiving.stages import PumpParts, Stages

log = logging.getLogger("marq.kafka")

IDLE_S = 15.0
"""A process that takes nothing for so long leaves the group, so that others get its messages."""
_WAIT_S = 0.1


class Pump:
    """One queue's consumer in this process."""

    def __init__(self, parts: PumpParts) -> None:
        self.queue = queue = parts.topic.name
        self._parts = parts
        self._inbox = parts.inbox
        self._prefetch = Prefetch()
        self._helm = Helm()
        self._stages: Stages | None = None
        """None: not in the group."""
        self._broken: Exception | None = None
        """What a taker met: the pump's own thread ends by it."""
        self._joined = threading.Event()
        self._stopping = False
        self._thread = threads.make(self._run, f"marq-pump-{queue}", self._died)

    def start(self) -> None:
        self._thread.start()

    @property
    def joined(self) -> bool:
        return self._joined.is_set()

    def wait_until_joined(self, timeout_s: float) -> bool:
        """Wait until the group has given us partitions, or said that there are none left; or until
        receiving has failed."""
        return self._joined.wait(timeout_s)

    def stop(self, timeout_s: float | None = None) -> None:
        """Give back what is not begun and leave the group; again is harmless."""
        self._stopping = True
        if self._stages is not None:
            self._stages.stop()
        with self._inbox.lock:
            self._inbox.changed.notify_all()
        self._helm.call()
        if self._thread.ident and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    # By whoever takes messages.

    def turn(self, waits: bool = False) -> bool:
        """Poll, claim and commit in passing; whether messages are under way."""
        if self._stages is None or self._broken or not self._prefetch.is_fast:
            return False
        if self._inbox.torn:
            return False
        try:
            if not self._helm.take_in_passing():
                return False
            stages = self._stages  # it may have been left meanwhile
            under_way = stages is not None and stages.work_in_passing(waits)
            self._helm.done()
            return under_way
        except Exception as error:
            self._broken = error
            return False
        finally:
            self._helm.leave()

    def call(self) -> None:
        """Nothing is under way: its own thread waits for more."""
        self._helm.call()

    # By its own thread.

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._join_when_wanted()
                if self._stages is not None and self._helm.take(_WAIT_S):
                    self._turn_alone(self._stages)
        except QueueError as error:
            log.error("pump stopped", extra={"queue": self.queue, "error": str(error)})
            self._failed(error)
        except BaseException as error:
            self._died(error)  # before leaving: that may take a while
            raise
        finally:
            self._leave()

    def _turn_alone(self, stages: Stages) -> None:
        try:
            if self._broken is not None:
                raise self._broken
            if self._helm.half_done:
                self._begin_anew()
            elif self._inbox.torn:
                self._mend()
            else:
                stages.work()
                if self._prefetch.is_fast and self._inbox.waiting:
                    self._helm.leave_to_takers()
            self._helm.done()
        finally:
            self._helm.leave()

    def _begin_anew(self) -> None:
        """A taker was interrupted: what it had polled is claimed by nobody, so poll it again."""
        log.warning("interrupted: joining again", extra={"queue": self.queue})
        self._leave()
        self._mend()
        self._helm.half_done = False

    def _mend(self) -> None:
        """A taker was interrupted: what he was about to take, or to take in, is nowhere."""
        for ledger in self._parts.markers.ledgers:
            self._inbox.drop_strays(list(ledger.claims.values()))

    def _died(self, error: BaseException) -> None:
        """Whoever takes messages is told."""
        self._failed(QueueError(f"receiving from {self.queue!r} failed: {error}"))

    def _failed(self, error: QueueError) -> None:
        self._inbox.fail(error)
        self._joined.set()  # there is nothing to wait for any more

    # Joining and leaving the group.

    def _join_when_wanted(self) -> None:
        if self._stages is None:
            with self._inbox.lock:
                self._inbox.changed.wait_for(
                    lambda: self._inbox.takers or self._stopping, timeout=_WAIT_S
                )
                wanted = self._inbox.takers and not self._stopping
            if wanted:
                self._join()
            return
        # Here, where it keeps nobody's message waiting. A deleted queue is an error: leave, others
        # may create it.
        self._parts.look()
        if self._idle():
            log.info("left the group: nobody takes messages", extra={"queue": self.queue})
            self._leave()

    def _idle(self) -> bool:
        inbox = self._inbox
        return not inbox.takers and time.monotonic() - inbox.taken_at > IDLE_S

    def _join(self) -> None:
        with contextlib.suppress(NotConnected):  # later, when a broker answers
            self._stages = Stages(self._parts, self._prefetch, self._joined)

    def _leave(self) -> None:
        stages, self._stages = self._stages, None  # whoever comes by finds none to turn
        if stages is None:
            return
        self._joined.clear()
        self._helm.take_over()
        try:
            stages.leave()
            self._inbox.give_back_waiting()
            self._parts.markers.flush(10)
        except QueueError as error:
            log.warning("not given back", extra={"queue": self.queue, "error": str(error)})
        finally:
            stages.close()
            self._helm.done()
            self._helm.leave()
