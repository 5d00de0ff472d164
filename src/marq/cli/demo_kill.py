"""The demo's murder: of a worker that holds messages, by the log; and that they come back."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from marq.cli.demo_handled import ANSWERS, BEGUN, Line, LinesSoFar
from marq.cli.demo_stage import Summary, say
from marq.cli.demo_workers import Workers, wait_until
from marq.errors import RuntimeFailed

LEASE = "10s"


@dataclass(frozen=True, slots=True)
class Killed:
    """A worker that is no more."""

    pid: int
    at: float
    held: dict[str, Line]
    """By order, what its handlers had begun and not ended."""


def one_that_holds(workers: Workers, directory: Path, long_orders: int) -> Killed:
    """Kill the worker with most long orders, once all of them have begun; then the bank answers."""
    begun = LinesSoFar(directory / BEGUN)

    def all_have_begun() -> bool:
        begun.look()
        return len(begun.orders) >= long_orders

    wait_until(all_have_begun, "the log knew of all long orders that they had begun")
    [(pid, _)] = Counter(line.pid for line in begun.lines).most_common(1)
    held = {line.order: line for line in begun.lines if line.pid == pid}
    say(f"pid {pid} has begun {', '.join(sorted(held))}; none of them is acked")
    workers.kill(pid)
    killed = Killed(pid, time.time(), held)
    say(f"SIGKILL to pid {pid}: what it had is nobody's now")
    (directory / ANSWERS).touch()
    say("the bank answers again: the other workers go on with theirs")
    return killed


def show(killed: Killed, handled: LinesSoFar, summary: Summary) -> None:
    """What the dead worker held, and what became of it."""
    back = {line.order: line for line in handled.came_back()}
    say(f"what pid {killed.pid} had begun came back by itself, counted, when its lease was over,")
    say(f"  {LEASE} after the last sign of life:")
    for order, before in sorted(killed.held.items()):
        line = back.get(order)
        if line is None or line.attempt <= before.attempt:
            raise RuntimeFailed(f"{order} of the killed worker did not come back, counted")
        later = f"{line.at - killed.at:.1f} s after the kill"
        now = f"attempt {line.attempt} by pid {line.pid}, {later}"
        say(f"  {order}: attempt {before.attempt} killed, {now}")
    begun = sum(line.attempt > 1 for line in back.values())
    say(f"in all {len(back):,} messages of it came back: {begun} that it had begun, and")
    say(f"  {len(back) - begun:,} that it had only fetched ahead, which is no attempt")
    summary.add_row(
        f"killed with {len(killed.held)} long orders in hand",
        f"{len(back):,} messages came back by themselves, {begun} of them begun",
    )
