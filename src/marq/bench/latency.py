"""How long one message takes: sending it, and from its send to whoever handles it.

Each receiver is a process, and its messages are sent by another one, at a rate; both read the same
clock. All variants of a rate are measured one after the other on the same broker, round by round.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import msgspec

from marq.bench.summary import Goal
from marq.bench.topics import Stage
from marq.errors import RuntimeFailed

Rate = Literal[0, 10, 1_000]
"""Messages a second; 0: one after the other, each as soon as the last one is durable."""

TITLES = {
    "flush": "bare produce + flush, linger 0",
    "send": "marq send",
    "poll": "bare poll",
    "share": "ShareConsumer poll",
    "receive": "marq receive",
    "handler": "marq handler",
}
_BARE = {"send": "flush", "receive": "poll", "handler": "poll"}
"""What ours are compared with."""
_GOALS = {"send": 1.3, "receive": 2.0, "handler": 2.0}
"""At most so many times what bare takes."""
_PATIENCE_S = 120.0


class LatencyPlan(msgspec.Struct, frozen=True):
    """Messages of a measurement, by rate, and how often each is made."""

    messages: dict[Rate, int] = msgspec.field(
        default_factory=lambda: {0: 500, 10: 100, 1_000: 3_000}
    )
    rounds: int = 3


QUICK = LatencyPlan({0: 100, 10: 20, 1_000: 500}, rounds=1)


class Task(msgspec.Struct, frozen=True):
    """A measurement, as it is told to its processes."""

    variant: str
    rate: Rate
    servers: str
    queue: str
    messages: int


class Delays(msgspec.Struct, frozen=True):
    """What a measurement found, in milliseconds, as the messages came."""

    variant: str
    rate: Rate
    ms: list[float]


class LatencyRow(msgspec.Struct, frozen=True):
    """A variant at a rate, over all rounds."""

    variant: str
    rate: Rate
    messages: int
    p50_ms: float
    p99_ms: float
    times_p50: float | None = None
    """How many times what bare takes."""
    times_p99: float | None = None

    @property
    def title(self) -> str:
        return TITLES[self.variant]

    @property
    def at(self) -> str:
        return _at(self.rate)


# Measuring.


def measure(servers: str, plan: LatencyPlan, say: Any) -> list[LatencyRow]:
    """All variants, each round in the same order: what slows the machine down slows all."""
    found: list[Delays] = []
    stage = Stage(servers)
    try:
        for number in range(plan.rounds):
            for rate, messages in plan.messages.items():
                for variant in _variants(rate):
                    with stage.queue(f"bench.latency.{rate}.{variant}.{number}") as queue:
                        found.append(_measured(Task(variant, rate, servers, queue, messages)))
                    row = _row(variant, rate, found[-1:])
                    what = f"{TITLES[variant]}, {_at(rate)}"
                    say(f"round {number + 1}, {what:<44} {row.p50_ms:>7.2f} ms p50")
    finally:
        stage.close()
    return rows(found)


def _variants(rate: Rate) -> list[str]:
    return [each for each in TITLES if (each in ("flush", "send")) == (rate == 0)]


def _measured(task: Task) -> Delays:
    if not task.rate:
        with _process("sender", task) as sender:
            return Delays(task.variant, task.rate, _heard(sender, task))
    with _process("receiver", task) as receiver, _process("sender", task) as sender:
        _wait_for(receiver, task)  # the first one came: it has its partitions
        assert sender.stdin is not None
        sender.stdin.write("go\n")
        sender.stdin.flush()
        return Delays(task.variant, task.rate, _heard(receiver, task))


def _wait_for(process: subprocess.Popen[str], task: Task) -> None:
    assert process.stdout is not None
    if not process.stdout.readline():
        raise RuntimeFailed(f"measuring {TITLES[task.variant]} failed")


def _heard(process: subprocess.Popen[str], task: Task) -> list[float]:
    assert process.stdout is not None
    if line := process.stdout.readline():
        return msgspec.json.decode(line, type=list[float])
    raise RuntimeFailed(f"measuring {TITLES[task.variant]} failed")


@contextmanager
def _process(role: str, task: Task) -> Iterator[subprocess.Popen[str]]:
    """Gone afterwards; one that hangs is ended, and then says nothing."""
    about = msgspec.json.encode(task).decode()
    patience_s = _PATIENCE_S + task.messages / (task.rate or 10)
    command = [sys.executable, "-m", "marq.bench.latency_roles", role, str(patience_s), about]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


# What comes of it.


def rows(found: list[Delays]) -> list[LatencyRow]:
    """A row for each variant at each rate; ours beside what bare takes in the same run."""
    groups: dict[tuple[str, Rate], list[Delays]] = {}
    for each in found:
        groups.setdefault((each.variant, each.rate), []).append(each)
    plain = {key: _row(*key, delays) for key, delays in groups.items()}
    return [
        _compared(row, plain.get((_BARE.get(row.variant, ""), row.rate))) for row in plain.values()
    ]


def _row(variant: str, rate: Rate, delays: list[Delays]) -> LatencyRow:
    ms = sorted(each for found in delays for each in found.ms)
    return LatencyRow(variant, rate, len(ms), _at_share(ms, 0.5), _at_share(ms, 0.99))


def _at_share(ms: list[float], share: float) -> float:
    return ms[min(len(ms) - 1, int(len(ms) * share))]


def _compared(row: LatencyRow, bare: LatencyRow | None) -> LatencyRow:
    if bare is None:
        return row
    return msgspec.structs.replace(
        row,
        times_p50=row.p50_ms / bare.p50_ms,
        times_p99=row.p99_ms / bare.p99_ms,
    )


def goals(found: list[LatencyRow]) -> list[Goal]:
    """What the benchmark is there to show; of a send only the median, for its p99 is the disk's."""
    return [goal for row in found for goal in _goals(row)]


def _goals(row: LatencyRow) -> Iterator[Goal]:
    most = _GOALS.get(row.variant)
    if most is None or row.times_p50 is None or row.times_p99 is None:
        return
    yield Goal(f"{row.title}, p50 of bare", row.at, row.times_p50, most, at_least=False)
    if row.rate:
        yield Goal(f"{row.title}, p99 of bare", row.at, row.times_p99, most, at_least=False)


def _at(rate: Rate) -> str:
    return f"{rate:,}/s" if rate else "one by one"
