"""Acks take no lock: whatever line they are interrupted at, by whomever, none is lost or confirmed
before it is in the log."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from types import FrameType
from typing import Any, cast

import pytest

from marq.core.markers import bits
from marq.core.markers.marker import Claim, ClaimId, Progress, Source
from marq.kafka.client.answers import Answer, WaitingRoom
from marq.kafka.leasing import handout as traced
from marq.kafka.leasing.append_time import AppendTime
from marq.kafka.leasing.handout import Handout, Lease
from marq.kafka.leasing.ledger import Ledger, reported
from marq.kafka.leasing.statements import Statement, marker

PATIENCE_S = 30
MESSAGES = 4
MOST_LINES = 40
"""More lines than any call here goes through."""


class WatchedLock:
    """A lock that tells when a thread has to wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.halted: dict[int, threading.Event] = {}
        """By thread, what is set when it waits."""

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            if halted := self.halted.get(threading.get_ident()):
                halted.set()
            self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


class Desk:
    """A ledger with one handout, and the log it writes to."""

    def __init__(self) -> None:
        self.clock = type("Clock", (), {"recent_ms": 0})()
        self.waiting = WaitingRoom()
        self.ledger = Ledger(0, cast(Any, self))
        self.lock = WatchedLock()
        self.ledger.lock = cast(Any, self.lock)
        source = Source(bytes(16), 0, "orders", "", 0)
        claim = Claim(ClaimId(1, 1), source, 0, ((0, MESSAGES),), 10_000)
        live = self.ledger.claim(claim, [None] * MESSAGES, MESSAGES)
        live.answered(AppendTime.at(0))
        live.committed()
        home = cast(Any, type("Home", (), {"settled": 0})())
        self.handout = Handout(home, live, bits.span(0, MESSAGES), MESSAGES, 1)
        self.handout.start(Lease(10_000, 0, kept_alive=False), 10_000)
        self.flushing = WatchedLock()
        self.threads: list[threading.Thread] = []
        self.written: list[list[Statement]] = []
        self.receipts: dict[int, Answer[None]] = {}
        self.flush()

    def wake(self) -> None: ...

    def beat_within(self, lease_ms: int) -> None: ...

    def ack(self, index: int) -> None:
        self.receipts[index] = self.handout.end(index)

    def flush(self) -> None:
        """As the flusher does; one at a time."""
        with self.flushing:
            while self.ledger.dirty:
                self.written += self.ledger.collect()

    def meanwhile(self, act: Callable[[], object]) -> Callable[[], None]:
        """Another thread does it, until it is done or has to wait for this one."""

        def start() -> None:
            halted = threading.Event()

            def run() -> None:
                for lock in (self.lock, self.flushing):
                    lock.halted[threading.get_ident()] = halted
                act()
                halted.set()

            self.threads.append(threading.Thread(target=run, daemon=True))
            self.threads[-1].start()
            assert halted.wait(PATIENCE_S)

        return start

    def check(self) -> None:
        """All that was acked is written once, and confirmed by then, not before."""
        for thread in self.threads:
            thread.join(PATIENCE_S)
        self.flush()
        in_log: list[int] = []
        for statements in self.written:
            in_log += _ended(statements)
            reported(statements, AppendTime.at(1))
            early = [
                index
                for index, receipt in self.receipts.items()
                if receipt.done() and index not in in_log
            ]
            assert early == [], "confirmed before it was in the log"
        assert sorted(in_log) == sorted(self.receipts), "each is in the log once"
        assert all(receipt.done() for receipt in self.receipts.values()), "nobody waits for ever"


def _ended(statements: list[Statement]) -> Iterator[int]:
    found = marker(statements)
    assert isinstance(found, Progress)
    for step in found.steps:
        yield from (index for index in range(MESSAGES) if step.ended & 1 << index)


def interrupted(call: Callable[[], object], at: dict[int, Callable[[], object]]) -> int:
    """Run the call, and at the given lines of it something else; how many lines there were."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != traced.__file__:
            return None
        if event == "line":
            lines += 1
            if lines in at:
                sys.settrace(None)
                at[lines]()
                sys.settrace(trace)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return lines


LINES = list(range(1, 1 + interrupted(partial(Desk().ack, 1), {})))
FLUSHED_LINES = list(range(1, MOST_LINES))


def test_every_line_of_an_ack_is_interrupted() -> None:
    assert 4 < len(LINES) < MOST_LINES


@pytest.mark.parametrize("line", LINES)
def test_an_ack_may_be_interrupted_by_the_flusher_anywhere(line: int) -> None:
    desk = Desk()
    desk.ack(0)

    interrupted(partial(desk.ack, 1), {line: desk.meanwhile(desk.flush)})

    desk.check()


@pytest.mark.parametrize(("first", "second"), list(combinations(LINES, 2)))
def test_an_ack_may_be_interrupted_by_another_one_and_the_flusher(first: int, second: int) -> None:
    for turned in (False, True):
        desk = Desk()
        acts = [desk.meanwhile(partial(desk.ack, 2)), desk.meanwhile(desk.flush)]
        early, late = reversed(acts) if turned else acts

        interrupted(partial(desk.ack, 1), {first: early, second: late})

        desk.check()


@pytest.mark.parametrize("line", FLUSHED_LINES)
def test_the_flusher_may_be_interrupted_by_an_ack_anywhere(line: int) -> None:
    desk = Desk()
    desk.ack(0)

    interrupted(desk.flush, {line: desk.meanwhile(partial(desk.ack, 1))})

    desk.check()
