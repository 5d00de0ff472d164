"""A worker SIGKILLed at every crash window of the hot path: no message is lost.

All the windows are run at once, each on a queue of its own, and healed by one healthy worker that
drains what was left; then the log is asked what became of every message.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

import marq
from marq import embedded
from tests.e2e.kafka_fixtures import new_name
from tests.e2e.kafka_oracle import Findings, Oracle
from tests.e2e.kafka_process import Crew, WorkerProcess, eventually

pytestmark = [pytest.mark.java, pytest.mark.kafka, pytest.mark.e2e]

MESSAGES = 200


@dataclass
class Case:
    """One worker that dies in a window."""

    window: str
    plan: dict[str, Any] = field(default_factory=dict)
    partitions: int = 4
    queue: str = field(default_factory=new_name)
    sent: set[str] = field(default_factory=set)
    found: Findings = field(default_factory=Findings)
    attempts: list[int] = field(default_factory=list)
    """Of the parts still open: 0 = not begun."""


CASES = {
    case.window: case
    for case in (
        Case("after-poll-before-claim"),
        Case("claim-in-flight"),
        Case("claimed-before-commit"),
        Case("committed-before-hand-out", {"nth": 2}),
        Case("done-before-progress", {"nth": 3}),
        Case("progress-in-flight", {"nth": 3, "delay_s": 0.001}),
        Case("during-revoke", {"work_s": 0.3}),
        Case("revoked-and-committed", {"work_s": 0.3}),
        Case("copied-before-end", {"work_s": 0.1, "concurrency": 1}),
        Case("claim-fails", {"batch": 1, "concurrency": 8}, partitions=1),
    )
}


class Aftermath:
    """What all the windows left behind."""

    def __init__(self, servers: str) -> None:
        self.crew = Crew(servers)
        self._oracle = Oracle(servers)
        self._broker = marq.connect(f"kafka://{servers}")
        self.victims: dict[str, WorkerProcess] = {}

    def run(self) -> None:
        for case in CASES.values():
            queue = self._broker.queue(case.queue, partitions=case.partitions)
            case.sent.update(sent.message_id for sent in queue.send_many([b"x"] * MESSAGES))
            plan = {"window": case.window, "batch": 20, **case.plan}
            self.victims[case.window] = self.crew.start(case.queue, **plan)
        self._stop_the_one_that_gives_back()
        for window, victim in self.victims.items():
            if "revoke" not in window:
                assert victim.wait() == -signal.SIGKILL, victim.errors
        self.crew.start(*(case.queue for case in CASES.values()))
        for case in CASES.values():
            self._wait_until_drained(case)

    def _stop_the_one_that_gives_back(self) -> None:
        victim = self.victims["copied-before-end"]
        victim.wait_until(lambda: len(victim.events) > 60)
        victim.terminate()

    def _wait_until_drained(self, case: Case) -> None:
        victim = self.victims[case.window]
        assert victim.wait() == -signal.SIGKILL, victim.errors
        victim.wait_for(f"window {case.window}")

        def drained() -> bool:
            case.found = self._oracle.look(case.queue)
            return not case.found.waiting and self._oracle.holders(case.queue) <= {victim.id}

        assert eventually(drained), f"{case.window}: {case.found}"
        case.attempts = [part.attempt for part in self._oracle.parts(case.queue)]

    def done(self) -> set[str]:
        return self.crew.ids("done")

    def close(self) -> None:
        with self.crew:
            self._broker.close()
            self._oracle.close()


@pytest.fixture(scope="module")
def aftermath(kafka: embedded.Runtime) -> Iterator[Aftermath]:
    found = Aftermath(kafka.bootstrap_servers)
    try:
        began = time.monotonic()
        found.run()
        print(f"{len(CASES)} windows in {time.monotonic() - began:.0f} s")
        yield found
    finally:
        found.close()


@pytest.mark.parametrize("window", CASES)
def test_no_message_is_lost(aftermath: Aftermath, window: str) -> None:
    case, victim = CASES[window], aftermath.victims[window]

    found = case.found

    print(window, found)
    assert found.sent == case.sent
    assert not found.lost
    assert found.acked | found.open == case.sent
    assert found.acked <= aftermath.done(), "ended, though nobody handled it"
    assert {event.address for event in victim.heard("acked")} <= found.ended


@pytest.mark.parametrize(
    "window",
    ["after-poll-before-claim", "claim-in-flight", "claimed-before-commit", "claim-fails"],
)
def test_what_was_not_committed_is_handled_by_another(aftermath: Aftermath, window: str) -> None:
    assert CASES[window].found.acked == CASES[window].sent


def test_what_was_committed_and_not_handed_out_is_open_and_not_begun(aftermath: Aftermath) -> None:
    case = CASES["committed-before-hand-out"]

    assert case.found.open
    assert 0 in case.attempts


def test_what_was_done_before_its_progress_was_written_is_open_and_begun_or_not(
    aftermath: Aftermath,
) -> None:
    case, victim = CASES["done-before-progress"], aftermath.victims["done-before-progress"]

    assert victim.ids("done") <= case.found.acked | case.found.open
    assert victim.ids("done") & case.found.open


def test_a_copy_whose_original_did_not_end_is_delivered_and_the_original_stays_open(
    aftermath: Aftermath,
) -> None:
    case = CASES["copied-before-end"]

    assert case.found.records > MESSAGES
    assert case.found.open
