"""Which process is meant: a pid alone may be anyone's after a reboot or when it was reused."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import msgspec
import psutil  # type: ignore[import-untyped]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class ProcessId(msgspec.Struct, frozen=True):
    """One process, for good: pid, start in seconds after boot, and which boot it was."""

    pid: int
    started: float
    boot: str

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        """Of a process that runs now."""
        return cls(pid, _after_boot(psutil.Process(pid)), _boot())

    @classmethod
    def mine(cls) -> ProcessId:
        """Of this process."""
        return cls.of(os.getpid())

    def alive(self) -> bool:
        """Whether this very process still runs."""
        return self._find() is not None

    def end(self, patience: float) -> None:
        """Ask it to end, and end it when that takes too long; nobody else's process is touched."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            process = self._find()
            if process:
                with contextlib.suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
                    process.send_signal(sign)
                    process.wait(patience)

    def _find(self) -> psutil.Process | None:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            # Two starts with one pid are seconds apart; clock ticks round to hundredths.
            same = abs(_after_boot(process) - self.started) < 0.5 and _boot() == self.boot
            if same and process.status() != psutil.STATUS_ZOMBIE:
                return process
        return None

    def uptime(self) -> float:
        """Seconds since its start; 0 when it is gone."""
        process = self._find()
        return max(0.0, time.time() - float(process.create_time())) if process else 0.0


def _after_boot(process: psutil.Process) -> float:
    # Not the time of day: a stepped clock moves that, and a running process would look gone.
    return round(float(process.create_time() - psutil.boot_time()), 2)


def _boot() -> str:
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""
