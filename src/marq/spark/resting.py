"""Rests between two batches: as long as none would find anything to do."""

from __future__ import annotations

import time
from collections.abc import Iterable

from marq.kafka.client.seeker import Place
from marq.kafka.tracker.act.report import Report
from marq.kafka.tracker.ticks import Ticks
from marq.spark import pace
from marq.spark.pulse import Pulse
from marq.stopping import Stopping


class Resting:
    """Only batches rest: ticks go on, and their offsets tell whether the hold logs took anything
    else. What lapses is known, so a rest ends when that is over."""

    def __init__(self, ticks: Ticks, pulse: Pulse, stopping: Stopping) -> None:
        self._ticks = ticks
        self._pulse = pulse
        self._stopping = stopping
        self._reports: dict[Place, Report] = {}
        """What is known of each partition of the hold logs."""
        self._is_quiet = False
        self._over_at = time.monotonic()

    def begin(self) -> None:
        """A query starts: what the last one knew need not be what this one does."""
        self._reports.clear()
        self._over_at = time.monotonic()

    @property
    def clock_ms(self) -> int:
        """What the clock of every fold would be, had it read the ticks there were since; 0: there
        may have been more than ticks."""
        return self._ticks.told_ms if self._is_quiet else 0

    def after(self, reports: Iterable[Report]) -> None:
        """Rest after a batch that came to this."""
        reports = list(reports)
        batch_s = time.monotonic() - self._over_at
        self._reports |= {(each.topic, each.partition): each for each in reports}
        rest = pace.rest(reports, self._ticks.clock.known_ms(), batch_s)
        self._wait(rest)
        if rest.seconds and not rest.lapse_ms:
            rest = self._on(batch_s)
        if rest.lapse_ms:
            self._ticks.tell(rest.lapse_ms)
        self._over_at = time.monotonic()

    def _wait(self, rest: pace.Rest) -> None:
        self._pulse.made(rest.seconds)
        self._stopping.wait(rest.seconds)

    def _on(self, batch_s: float) -> pace.Rest:
        """Rest on while nothing is new; what it was for in the end."""
        rest = self._until_lapse(batch_s, pace.QUIET_S)
        self._pulse.made(rest.seconds)
        ends = {place: each.end for place, each in self._reports.items()}
        self._is_quiet = True
        quiet = self._ticks.nothing_new(ends, rest.seconds, self._stopping.is_set)
        self._is_quiet = False
        if not quiet:
            rest = self._until_lapse(batch_s, 0.0)
            self._wait(rest)
        return rest

    def _until_lapse(self, batch_s: float, longest_s: float) -> pace.Rest:
        now_ms = self._ticks.clock.known_ms() or 0
        return pace.until_lapse(self._reports.values(), now_ms, batch_s, longest_s)
