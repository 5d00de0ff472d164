"""One measurement in a process of its own: `run` starts it, `main` is what runs there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from marq.bench.meter import Meter
from marq.bench.plan import Figures, Measurement
from marq.errors import RuntimeFailed

_SLOWEST, _START_S = 500, 120


def run(job: Measurement) -> Figures:
    """The figures of a measurement, made in a fresh process."""
    command = [sys.executable, "-m", "marq.bench.job", msgspec.json.encode(job).decode()]
    patience_s = _START_S + job.messages / _SLOWEST
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience_s, check=False)
    if done.returncode:
        last = (done.stderr.strip() or "no word").splitlines()[-1]
        raise RuntimeFailed(f"measuring {job.variant} failed: {last}")
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Figures)


def run_pair(job: Measurement) -> Figures:
    """The figures of two processes that share a queue, each on its half of the partitions: told to
    begin when both have theirs."""
    with _half(job) as first, _half(job) as second:
        both = (first, second)
        for each in both:
            assert each.stdout is not None
            each.stdout.readline()
        for each in both:
            print("go", file=each.stdin, flush=True)
        told = [each.communicate(timeout=_START_S + job.messages / _SLOWEST)[0] for each in both]
    if first.returncode or second.returncode:
        raise RuntimeFailed("measuring two processes failed")
    one, other = (msgspec.json.decode(text.splitlines()[-1], type=Figures) for text in told)
    return Figures(
        one.messages + other.messages,
        max(one.seconds, other.seconds),
        one.cpu_s + other.cpu_s,
        max(one.peak_mb, other.peak_mb),
    )


def _half(job: Measurement) -> subprocess.Popen[str]:
    half = replace(job, variant="half", messages=job.messages // 2)
    command = [sys.executable, "-m", "marq.bench.job", msgspec.json.encode(half).decode()]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _variants() -> dict[str, Callable[[Measurement, Meter], None]]:
    from marq.bench import bare, ours  # only here: whoever starts the processes needs no client

    return {
        "bare": bare.consume,
        "share": bare.share,
        "share-stock": bare.share_stock,
        "pull": ours.pull,
        "half": ours.half,
        "batch": ours.batch,
        "handler": ours.handler,
        "produce": bare.produce,
        "send": ours.send,
        "hold": ours.hold,
    }


def main() -> None:
    job = msgspec.json.decode(sys.argv[1], type=Measurement)
    meter = Meter(job.messages)
    _variants()[job.variant](job, meter)
    print(msgspec.json.encode(meter.figures).decode())


if __name__ == "__main__":
    main()
