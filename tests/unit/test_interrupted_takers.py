"""Ctrl-C anywhere in a `receive`: no message is kept from everyone, no lock is left taken.

CPython runs signal handlers where a function begins and after a call of one written in C: there
these tests interrupt.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, cast

import pytest

from marq.backend import Handing
from marq.core.catalog.definitions import QueueDefinition
from marq.core.markers.marker import Claim, ClaimId, Source
from marq.kafka.leasing.desk import Desk
from marq.kafka.leasing.live import LiveClaim
from marq.kafka.receiving import inbox as receiving
from marq.kafka.receiving.helm import Helm
from marq.kafka.receiving.inbox import KafkaInbox
from tests.unit.test_inbox import NothingComes, is_free

MESSAGES = 5
MOST = 1_000
"""More places than any call here has."""
OURS = ("/marq/kafka/", "threading.py", "contextlib.py")


class Writer:
    """What writes down what a desk has."""

    clock = type("Clock", (), {"recent_ms": 0})()
    waiting = None

    def wake(self) -> None: ...

    def beat_within(self, lease_ms: int) -> None: ...


class World:
    """An inbox and two claims of its queue."""

    def __init__(self) -> None:
        self.desk = Desk(0, cast(Any, Writer()))
        self.inbox = KafkaInbox(
            "orders",
            QueueDefinition,
            now_ms=lambda: 0,
            write=lambda copy: None,  # type: ignore[arg-type, return-value]
            random=lambda: 0.0,
            flush=lambda desk: None,
        )
        self.claims = [self._claim(1), self._claim(2)]

    def _claim(self, number: int) -> LiveClaim:
        start = number * MESSAGES
        source = Source(bytes(16), 0, "orders", "", 0)
        claim = Claim(ClaimId(1, number), source, start, ((start, MESSAGES),), 500)
        live = LiveClaim(claim, [None] * MESSAGES, start + MESSAGES, self.desk)
        live.lapse_ms = 1_000
        return live

    def add(self) -> None:
        """As the pump does with claims that are committed."""
        for live in self.claims:
            live.committed()
            self.inbox.add(live)

    def take(self) -> None:
        self.inbox.take(3, 0, Handing(), NothingComes())

    def check(self) -> None:
        """What is beaten waits for someone, and whoever has left waits for nothing."""
        assert is_free(self.inbox.changed)
        assert (self.inbox.takers, self.inbox.wanted) == (0, 0)
        waiting = self.inbox.room.recount()
        assert self.inbox.room.waiting == waiting.total()
        for live in self.desk.claims.values():
            assert live.unbegun == waiting[live]


def interrupted(call: Callable[[], object], place: int) -> bool:
    """Run the call and interrupt it at that place; False: it has fewer."""
    places = 0

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal places
        name = frame.f_code.co_filename
        if event in ("call", "c_return") and any(part in name for part in OURS):
            places += 1
            if places == place:
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(profile)
    try:
        call()
    except KeyboardInterrupt:
        pass  # what it has left behind is looked at
    finally:
        sys.setprofile(None)
    return place <= places


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "not_plain", lambda messages: {})


def test_whoever_is_interrupted_while_he_takes_keeps_nothing_from_others() -> None:
    for place in range(1, MOST):
        world = World()
        world.add()

        if not interrupted(world.take, place):
            break

        if world.inbox.torn:  # then the pump does
            world.inbox.drop_strays(world.claims)
        world.check()
    assert 10 < place < MOST


def test_whoever_is_interrupted_while_he_waits_asks_for_nothing_any_more() -> None:
    for place in range(1, MOST):
        world = World()

        if not interrupted(world.take, place):
            break

        world.check()
    assert 10 < place < MOST


def test_whoever_is_interrupted_while_he_fills_the_inbox_keeps_nothing_from_others() -> None:
    for place in range(1, MOST):
        world = World()

        if not interrupted(world.add, place):
            break

        world.inbox.drop_strays(world.claims)  # as the pump does: the helm is left half done
        world.check()
    assert 10 < place < MOST


def test_whoever_is_interrupted_at_the_helm_leaves_it_to_others() -> None:
    def turn(helm: Helm) -> None:
        try:
            if helm.take_in_passing():
                helm.done()
        finally:
            helm.leave()

    for place in range(1, MOST):
        helm = Helm()
        there = interrupted(partial(turn, helm), place)

        others = threading.Thread(target=helm.take_over, daemon=True)
        helm.leave()  # as whoever comes by again
        others.start()
        others.join(5)
        assert not others.is_alive()
        if not there:
            break
    assert 5 < place < MOST
