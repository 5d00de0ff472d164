"""Runs a plan: broker, cases, rounds."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from marq import embedded
from marq.bench import job, topics
from marq.bench.plan import OURS, SENDING, TITLES, Case, Figures, Measured, Measurement, Plan
from marq.bench.topics import Stage
from marq.errors import RuntimeFailed

Say = Callable[[str], None]
_WARM_UP = ("bare", "pull")


@contextmanager
def broker_of_its_own(say: Say) -> Iterator[str]:
    """How to reach it; everything is in a directory that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="marq-bench-") as directory:
        say("starting Kafka")
        runtime = embedded.start(Path(directory) / "runtime", tracker=False, parent=os.getpid())
        try:
            topics.delete_at_once(runtime.bootstrap_servers)
            yield runtime.bootstrap_servers
        finally:
            runtime.stop()


def measure(plan: Plan, servers: str, say: Say) -> list[Measured]:
    """All measurements of a plan."""
    with closing(Stage(servers)) as stage:
        found = [each for case in plan.cases for each in _consuming(plan, case, stage, say)]
        for size in plan.sizes:
            found += _sending(plan, Case(size, messages=plan.messages_of(size)), stage, say)
            found.append(_holding(plan, Case(size, messages=plan.held), stage, say))
        return found


def _consuming(plan: Plan, case: Case, stage: Stage, say: Say) -> Iterator[Measured]:
    """All variants read the same topic, in each round in another order."""
    say(f"{case}: writing")
    name = f"bench.{case.size}.{case.batches}.{case.messages}"

    def task(variant: str) -> Measurement:
        return Measurement(variant, stage.servers, name, case.messages, case.size)

    with stage.filled(name, case, case.messages):
        if case == plan.cases[0]:
            for variant in _WARM_UP:
                _consumed(task(variant), stage)
        for number in range(plan.rounds):
            for variant in rotated(plan.variants_of(case), number):
                figures, markers, acked = _consumed(task(variant), stage)
                yield _said(Measured(variant, case, number, figures, markers, acked), say)


def rotated(variants: tuple[str, ...], number: int) -> tuple[str, ...]:
    """Another one first in each round: none is always the one after the same one."""
    at = number % len(variants)
    return variants[at:] + variants[:at]


def _consumed(task: Measurement, stage: Stage) -> tuple[Figures, int, int | None]:
    """A measurement with the markers it wrote and, by their fold, the messages they ended."""
    if task.variant not in OURS:
        return job.run(task), 0, None
    stage.rewind(task.queue)
    before = stage.markers()
    figures = job.run_pair(task) if task.variant == "pair" else job.run(task)
    written, acked = sum(stage.markers()) - sum(before), stage.acked(before)
    if acked != task.messages:
        raise RuntimeFailed(f"{task.variant}: the log has {acked} of {task.messages} acked")
    return figures, written, acked


def _sending(plan: Plan, case: Case, stage: Stage, say: Say) -> Iterator[Measured]:
    for number in range(plan.rounds):
        for variant in rotated(tuple(SENDING), number):
            with stage.queue(f"bench.{case.size}.{variant}.{number}") as name:
                task = Measurement(variant, stage.servers, name, case.messages, case.size)
                figures = job.run(task)
                if (sent := stage.sent(name)) < case.messages:
                    raise RuntimeFailed(f"{variant}: {sent} of {case.messages} arrived")
            yield _said(Measured(variant, case, number, figures), say)


def _holding(plan: Plan, case: Case, stage: Stage, say: Say) -> Measured:
    """Others lie in the queue too, so that what is fetched ahead counts."""
    with stage.filled(f"bench.{case.size}.held", case, plan.held * 2) as name:
        figures = job.run(Measurement("hold", stage.servers, name, plan.held, case.size))
    return _said(Measured("hold", case, 0, figures), say)


def _said(found: Measured, say: Say) -> Measured:
    rate, peak = found.figures.rate, found.figures.peak_mb
    say(
        f"{found.case}: round {found.round + 1}, {TITLES[found.variant]:<28}"
        f" {rate:>11,.0f} msg/s {peak:>5,.0f} MB"
    )
    return found
