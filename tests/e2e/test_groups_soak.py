"""Ordered groups under everything at once, and while brokers die. `make soak` runs it."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import marq
from marq import embedded
from tests.e2e.groups_load import Load, finish
from tests.e2e.groups_process import Cast, Member
from tests.e2e.kafka_fixtures import new_name

pytestmark = [
    pytest.mark.java,
    pytest.mark.kafka,
    pytest.mark.e2e,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif("OUTAGES" not in os.environ, reason="takes minutes: make soak runs it"),
]

SECONDS = float(os.environ.get("GROUPS_SECONDS", "90"))
NAMES = [f"m{number}" for number in range(1, 6)]


class Chaos:
    """Does things to instances and to the membership, at random."""

    def __init__(self, cast: Cast, seed: int) -> None:
        self._cast = cast
        self._chance = random.Random(seed)
        self._frozen: list[tuple[Member, float]] = []
        self._happenings: list[Callable[[], None]] = [
            *[self._kill] * 3,
            *[self._freeze] * 2,
            *[self._scale] * 2,
            self._step_down,
            self._end,
        ]

    def run(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._chance.choice(self._happenings)()
            time.sleep(self._chance.uniform(0.2, 2.5))
            self._thaw(time.monotonic())
        self._thaw(float("inf"))

    def _living(self) -> list[Member]:
        icy = [member for member, _ in self._frozen]
        return [
            each for each in self._cast.members if each.process.poll() is None and each not in icy
        ]

    def _kill(self) -> None:
        victim = self._chance.choice(self._living())
        victim.kill()
        self._cast.start(victim.name, work_s=0.003)

    def _end(self) -> None:
        leaver = self._chance.choice(self._living())
        leaver.terminate()
        self._cast.start(leaver.name, work_s=0.003)

    def _freeze(self) -> None:
        if len(self._frozen) < 2:
            victim = self._chance.choice(self._living())
            victim.freeze()
            self._frozen.append((victim, time.monotonic() + self._chance.uniform(0.3, 5)))

    def _thaw(self, now: float) -> None:
        for member, until in [each for each in self._frozen if each[1] <= now]:
            member.thaw()
            self._frozen.remove((member, until))

    def _scale(self) -> None:
        name = self._chance.choice(NAMES)
        members = self._cast.group.members()
        if name not in members:
            self._cast.group.add(name)
        elif len(members) > 1:
            self._cast.group.drop(name)

    def _step_down(self) -> None:
        self._cast.group.step_down(self._chance.choice(NAMES))


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_happens_each_message_is_acked_once_and_in_order(
    kafka: embedded.Runtime, broker: marq.Broker, seed: int
) -> None:
    queue = broker.queue(new_name(), partitions=3)
    group = broker.group(
        queue.name, "g", max_members=8, members=NAMES[:2], lease="1s", allocation="sticky"
    )
    with Cast(kafka.bootstrap_servers, group) as cast:
        for name in (*NAMES, *NAMES[:2]):
            cast.start(name, work_s=0.003)
        load = Load(queue, keys=8, pause_s=0.2)

        Chaos(cast, seed).run(SECONDS)

        finish(cast, load)
        print(f"{load.total} messages, {len(cast.members)} processes")


@pytest.fixture
def three(tmp_path: Path) -> Iterator[embedded.Runtime]:
    runtime = embedded.start(tmp_path, 3, tracker=False, parent=os.getpid())
    yield runtime
    embedded.stop(tmp_path)


def test_a_broker_of_three_that_dies_loses_and_reorders_nothing(three: embedded.Runtime) -> None:
    with marq.connect(f"kafka://{three.bootstrap_servers}") as broker:
        queue = broker.queue(new_name(), partitions=3)
        group = broker.group(queue.name, "g", max_members=6, members=NAMES[:2], lease="5s")
        with Cast(three.bootstrap_servers, group) as cast:
            for name in NAMES[:2] * 2:
                cast.start(name)
            load = Load(queue, keys=4, pause_s=0.3)
            cast.wait_until(lambda: len(cast.acked()) > 40)
            victim = embedded.status(three.directory).brokers[1]
            assert victim.pid is not None

            os.kill(victim.pid, signal.SIGKILL)

            began, before = time.monotonic(), len(cast.acked())
            cast.wait_until(lambda: len(cast.acked()) > before + 100, 180)
            print(f"one killed: 100 acks after {time.monotonic() - began:.1f} s")
            finish(cast, load)
