"""Measures the process it runs in."""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

from marq.bench.plan import Figures


class Meter:
    """From the first message to the last; joining a group is not counted."""

    def __init__(self, messages: int) -> None:
        self._messages = messages
        self._began: float | None = None
        self._cpu_s = 0.0
        self._with_first = 0
        self.figures: Figures | None = None

    def first(self, number: int) -> None:
        """The clock runs from here on; what is there already does not count. Again is harmless."""
        if self._began is None:
            self._with_first = number
            self._cpu_s = time.process_time()
            self._began = time.perf_counter()

    def last(self, messages: int | None = None) -> None:
        """Everything is done, or so many messages."""
        assert self._began is not None
        seconds, cpu_s = time.perf_counter() - self._began, time.process_time() - self._cpu_s
        messages = self._messages if messages is None else messages
        self.figures = Figures(messages - self._with_first, seconds, cpu_s, peak_mb())


def peak_mb() -> float:
    """The most memory the process ever had, in MB.

    On Linux `ru_maxrss` begins with what the parent had before exec; the kernel's own mark does
    not.
    """
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1_000 * 1.024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1_000 * 1.024
