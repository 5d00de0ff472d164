"""Crash windows: methods of the hot path wrapped so that the process dies exactly there.

Nothing of this is in the product; the wrapping is done in the process that is to die.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from marq.kafka.leasing.handout import Handout
from marq.kafka.marking.markers import Markers
from marq.kafka.receiving.inbox import KafkaInbox
from marq.kafka.receiving.stages import Stages


def say(*words: object) -> None:
    """One line on stdout, whole or not at all."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Window:
    """Dies when it is entered for the nth time."""

    def __init__(self, name: str, nth: int, delay_s: float) -> None:
        self._name = name
        self._left = nth
        self._delay_s = delay_s
        self._lock = threading.Lock()

    def enter(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left == 0:
                time.sleep(self._delay_s)
                say("window", self._name)
                os.kill(os.getpid(), signal.SIGKILL)

    def before(self, owner: type, method: str) -> None:
        """Die before this method runs."""
        original = getattr(owner, method)

        def wrapped(*args: Any, **options: Any) -> Any:
            self.enter()
            return original(*args, **options)

        setattr(owner, method, wrapped)

    def after(self, owner: type, method: str) -> None:
        """Die when this method has run."""
        original = getattr(owner, method)

        def wrapped(*args: Any, **options: Any) -> Any:
            result = original(*args, **options)
            self.enter()
            return result

        setattr(owner, method, wrapped)


def _after_poll_before_claim(window: Window) -> None:
    window.before(Stages, "_claim")


def _claim_in_flight(window: Window) -> None:
    window.after(Stages, "_claim")


def _claimed_before_commit(window: Window) -> None:
    window.before(Stages, "_commit")


def _committed_before_hand_out(window: Window) -> None:
    window.before(KafkaInbox, "add")


def _done_before_progress(window: Window) -> None:
    _around_acks(window, before=True)


def _progress_in_flight(window: Window) -> None:
    _around_acks(window, before=False)


def _around_acks(window: Window, before: bool) -> None:
    """Around the writing of a progress record that ends something."""
    original = Markers.flush_ledger

    def wrapped(self: Markers, ledger: Any) -> None:
        ends = any(len(handout.ended) > handout.ended_written for handout in ledger.dirty)
        if ends and before:
            window.enter()
        original(self, ledger)
        if ends and not before:
            window.enter()

    Markers.flush_ledger = wrapped  # type: ignore[method-assign]


def _during_revoke(window: Window) -> None:
    window.before(Stages, "_revoked")


def _revoked_and_committed(window: Window) -> None:
    """What was claimed is committed, the partition not yet let go."""
    window.after(Stages, "_drop")


def _copied_before_end(window: Window) -> None:
    """Given back: the copy is in the log, the end of the original is not."""
    original = KafkaInbox.give_back_waiting

    def wrapped(self: KafkaInbox) -> None:
        window.before(Handout, "end")
        original(self)

    KafkaInbox.give_back_waiting = wrapped  # type: ignore[method-assign]


def _claim_fails(window: Window) -> None:
    """The first claim is not written and reported as failed, when later ones are in the log."""
    original = Markers.claim
    failed: list[Any] = []
    later: list[Any] = []

    def wrapped(self: Markers, live: Any, answered: Callable[[], None]) -> None:
        if not failed:
            failed.append(live)
            say("failing", live.start, live.end)
            return

        def reported() -> None:
            later.append(live)
            if live.partition == failed[0].partition and not failed[0].failed:
                failed[0].failed = failed[0].acknowledged = True
                say("failed", failed[0].start, "though", live.start, "succeeded")
            answered()

        original(self, live, reported)

    Markers.claim = wrapped  # type: ignore[method-assign]
    window.after(Stages, "_void_from")


WINDOWS: dict[str, Callable[[Window], None]] = {
    "after-poll-before-claim": _after_poll_before_claim,
    "claim-in-flight": _claim_in_flight,
    "claimed-before-commit": _claimed_before_commit,
    "committed-before-hand-out": _committed_before_hand_out,
    "done-before-progress": _done_before_progress,
    "progress-in-flight": _progress_in_flight,
    "during-revoke": _during_revoke,
    "revoked-and-committed": _revoked_and_committed,
    "copied-before-end": _copied_before_end,
    "claim-fails": _claim_fails,
}


def arm(name: str, nth: int, delay_s: float) -> None:
    """Make this process die in that window."""
    WINDOWS[name](Window(name, nth, delay_s))
