"""What the parts of the tracker's benchmark share: a broker, a tracker, processes, figures."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Self

import msgspec
import psutil  # type: ignore[import-untyped]
from bench.tracker_member import Job
from tests.tracker_process import TrackerProcess

import marq
from marq import embedded
from marq.embedded import tether
from marq.embedded import tracker as embedded_tracker
from marq.kafka.backend import Kafka

PATIENCE_S = 240.0
_names = count()


def say(what: str) -> None:
    """A line of progress."""
    print(f"  {time.strftime('%H:%M:%S')} {what}", flush=True)


def until(
    true: Callable[[], bool], what: str, every_s: float = 0.05, within_s: float = PATIENCE_S
) -> None:
    """Wait for it."""
    late = time.monotonic() + within_s
    while not true():
        if time.monotonic() > late:
            raise TimeoutError(f"the benchmark waits in vain: {what}")
        time.sleep(every_s)


def late(ms: Iterable[float]) -> dict[str, float]:
    """How late, as the tables have it."""
    found = sorted(ms)
    if not found:
        return {"n": 0}
    at = {"p50": 0.5, "p99": 0.99}
    rows = {name: found[min(len(found) - 1, int(len(found) * share))] for name, share in at.items()}
    return {"n": len(found), **{name: round(ms, 1) for name, ms in rows.items()}} | {
        "max": round(found[-1], 1),
        "early": sum(each < 0 for each in found),
    }


@dataclass
class Member:
    """A process, and what it has said."""

    process: subprocess.Popen[str]
    said: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def start(cls, job: Job) -> Self:
        command = [sys.executable, "-m", "bench.tracker_member", msgspec.json.encode(job).decode()]
        member = cls(
            subprocess.Popen(
                # Tied to this process: nothing is left behind, however it ends.
                [sys.executable, tether.__file__, str(os.getpid()), *command],
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        threading.Thread(target=member._listen, daemon=True).start()
        return member

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(json.loads(line))

    def wait_for(self, word: str) -> None:
        until(lambda: any(word in each for each in list(self.said)), f"{word} of a process")

    @property
    def deliveries(self) -> list[dict[str, Any]]:
        return [each for each in list(self.said) if "at_ms" in each]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Rig:
    """A broker of its own with a tracker; ends all it started."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        runtime = embedded.start(directory / "runtime", tracker=False, parent=os.getpid())
        self._runtime, self.servers = runtime, runtime.bootstrap_servers
        self.broker = marq.connect(f"kafka://{self.servers}")
        self.checkpoint = directory / "tracker"
        self.tracker: TrackerProcess | None = None
        self._members: list[Member] = []

    @property
    def kafka(self) -> Kafka:
        assert isinstance(self.broker.backend, Kafka)
        return self.broker.backend

    def start_tracker(self, *options: str) -> float:
        """Seconds until it keeps time."""
        began = time.monotonic()
        environment = embedded_tracker.environment()
        self.tracker = TrackerProcess(self.servers, self.checkpoint, environment, options)
        self.tracker.wait_until_ready()
        return time.monotonic() - began

    def stop_tracker(self) -> None:
        if self.tracker is not None:
            self.tracker.kill()
            self.tracker = None

    def queue(self, **options: Any) -> marq.Queue[Any]:
        return self.broker.queue(f"bench{next(_names)}", **options)

    def member(self, queue: marq.Queue[Any], mode: str, **more: int) -> Member:
        member = Member.start(Job(self.servers, queue.name, mode, **more))
        self._members.append(member)
        return member

    @contextmanager
    def load(self, rate: int) -> Iterator[list[float]]:
        """Messages sent, received and acked all the time; the rates by second, while it lasts."""
        rates: list[float] = []
        if not rate:
            yield rates
            return
        queue = self.queue(partitions=4)
        drain, fill = self.member(queue, "drain"), self.member(queue, "fill", rate=rate)
        drain.wait_for("ready")
        fill.wait_for("ready")
        time.sleep(3)
        drain.said.clear()
        yield rates
        rates += [each["rate"] for each in drain.said if "rate" in each]
        fill.kill()
        drain.kill()

    def metrics(self) -> dict[str, float]:
        assert self.tracker is not None
        return self.tracker.metrics()

    def counted(self) -> Callable[[], dict[str, float]]:
        """Counts from now on; called, it tells of the tracker's batches, CPU and memory since."""
        before, cpu, began = self.metrics(), self.cpu_s(), time.monotonic()

        def since() -> dict[str, float]:
            after, took = self.metrics(), time.monotonic() - began
            more = {name: value - before.get(name, 0.0) for name, value in after.items()}
            number = more["marq_tracker_batch_seconds_count"]
            acts = more["marq_tracker_act_seconds_count"] or 1
            spent = {kind: s - cpu.get(kind, 0.0) for kind, s in self.cpu_s().items()}
            return {
                "batch_ms": round(1e3 * more["marq_tracker_batch_seconds_sum"] / number, 1),
                "act_ms": round(1e3 * more["marq_tracker_act_seconds_sum"] / acts, 1),
                "period_ms": round(1e3 * took / number, 1),
                **{f"{kind}_cpu_s_per_min": round(60 * s / took, 2) for kind, s in spent.items()},
                "rss_mb": round(self.rss_mb()),
            }

        return since

    def batches(self, for_s: float) -> dict[str, float]:
        """The tracker's batches, CPU and memory over some seconds."""
        counted = self.counted()
        time.sleep(for_s)
        return counted()

    def cpu_s(self) -> dict[str, float]:
        """CPU seconds of the tracker's processes, by what they are; of dead ones, too."""
        assert self.tracker is not None
        found: dict[str, float] = {"java": 0.0, "python": 0.0}
        for process in self.tracker.family():
            try:
                times, kind = process.cpu_times(), process.name()
            except psutil.NoSuchProcess:
                continue
            spent = times.user + times.system + times.children_user + times.children_system
            found["java" if "java" in kind else "python"] += spent
        return found

    def rss_mb(self) -> float:
        assert self.tracker is not None
        found = 0
        for process in self.tracker.family():
            with suppress(psutil.NoSuchProcess):
                found += process.memory_info().rss
        return found / 1e6

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for member in self._members:
            member.kill()
        self.broker.close()
        self.stop_tracker()
        self._runtime.stop()


@contextmanager
def rig() -> Iterator[Rig]:
    """A rig in a directory that is gone afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="marq-bench-tracker-") as directory,
        Rig(Path(directory)) as found,
    ):
        yield found


def median(values: list[float]) -> float:
    return round(statistics.median(values)) if values else 0.0
