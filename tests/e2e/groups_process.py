"""Instances of ordered groups as processes of a test, and what can be told from what they said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import marq
from marq.embedded import tether
from tests.e2e.groups_worker import Plan

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0


class Word(NamedTuple):
    """What an instance said of one delivery."""

    word: str
    partition: int
    offset: int
    fence: int
    payload: str
    process: int


class Member(NamedTuple):
    """An instance, and what it has said so far."""

    name: str
    process: subprocess.Popen[str]
    words: list[Word]
    lines: list[str]

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def terminate(self) -> None:
        self.process.terminate()

    def acked(self) -> list[Word]:
        return [each for each in list(self.words) if each.word == "acked"]

    @property
    def is_active(self) -> bool:
        said = [line for line in self.lines if line.startswith(("active", "inactive"))]
        return bool(said) and said[-1].startswith("active")


class Cast:
    """All instances of a test; ends those that still run."""

    def __init__(self, servers: str, group: marq.Group) -> None:
        self._servers = servers
        self.group = group
        self.members: list[Member] = []
        self._readers: list[threading.Thread] = []
        self._said = threading.Condition()

    def start(self, member: str, **plan: Any) -> Member:
        about = Plan(
            servers=self._servers,
            queue=self.group.queue,
            group=self.group.name,
            member=member,
            **plan,
        )
        command = [sys.executable, "-m", "tests.e2e.groups_worker", encoded(about)]
        process = subprocess.Popen(
            [sys.executable, tether.__file__, str(os.getpid()), *command],
            cwd=ROOT,
            env={name: value for name, value in os.environ.items() if not name.startswith("MARQ_")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        found = Member(member, process, [], [])
        self.members.append(found)
        reader = threading.Thread(target=self._listen, args=(found,))
        reader.start()
        self._readers.append(reader)
        return found

    def _listen(self, member: Member) -> None:
        assert member.process.stdout is not None
        with member.process.stdout as stdout:
            for line in stdout:
                with self._said:
                    match line.split():
                        case ["begun" | "acked" | "fenced" as word, p, offset, fence, payload]:
                            pid = member.process.pid
                            said = Word(word, int(p), int(offset), int(fence), payload, pid)
                            member.words.append(said)
                        case _:
                            member.lines.append(line.rstrip())
                    self._said.notify_all()
        member.process.wait()
        with self._said:
            self._said.notify_all()

    def wait_until(self, true: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
        """Wait until what they said makes this true."""
        with self._said:
            happened = self._said.wait_for(true, within_s)
        assert happened, [(each.name, each.lines[-8:], each.words[-3:]) for each in self.members]

    def wait_until_active(self, *members: Member) -> None:
        self.wait_until(lambda: all(each.is_active for each in members))

    def said(self, word: str) -> list[Word]:
        found = [each for member in self.members for each in list(member.words)]
        return [each for each in found if each.word == word]

    def acked(self) -> set[str]:
        return {each.payload for each in self.said("acked")}

    def untold(self) -> set[str]:
        """What killed processes had begun last: whether it was acked they could not say."""
        killed = [each for each in self.members if each.process.poll() == -signal.SIGKILL]
        return {each.words[-1].payload for each in killed if each.words}

    def __enter__(self) -> Cast:
        return self

    def __exit__(self, *error: object) -> None:
        for member in self.members:
            if member.process.poll() is None:
                member.process.kill()
            member.process.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join()


def encoded(plan: Plan) -> str:
    return msgspec.json.encode(plan).decode()


def check_order(cast: Cast, sent: dict[str, int]) -> None:
    """Each message of each key (`key-number`) was acked once, in order; fences rise. Of a process
    that was killed the last ack may be a fact nobody could tell of any more."""
    acked = cast.said("acked")
    places = [(each.partition, each.offset) for each in acked]
    assert len(set(places)) == len(places), "an offset was acked twice"
    numbers: dict[str, list[int]] = defaultdict(list)
    fences: dict[int, list[int]] = defaultdict(list)
    for each in sorted(acked, key=lambda word: (word.partition, word.offset)):
        key, number = each.payload.split("-")
        numbers[key].append(int(number))
        fences[each.partition].append(each.fence)
    assert all(found == sorted(set(found)) for found in numbers.values())
    assert all(found == sorted(found) for found in fences.values())
    everything = {f"{key}-{number}" for key, total in sent.items() for number in range(total)}
    assert everything - cast.acked() <= cast.untold()


def check_begun(member: Member) -> None:
    """Under one fence a partition's messages begin in order; each again only where it was."""
    last: dict[tuple[int, int], int] = {}
    for each in member.words:
        if each.word == "begun":
            before = last.get((each.partition, each.fence), -1)
            assert each.offset >= before, f"{each} after {before}"
            last[each.partition, each.fence] = each.offset
