"""What came of a batch, for counts and metrics."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

import msgspec

from marq.core.fold.batch import Batch
from marq.core.fold.counting import SourceCount
from marq.core.fold.overdue import Event

LATENESS_MS = (10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 60_000)
"""Upper bounds of the lateness histogram; what is later counts in one more."""


class Report(msgspec.Struct):
    """What act did for one partition, and what the fold counted there."""

    topic: str
    partition: int
    end: int
    """Where the batch ended."""
    clock_ms: int
    claims: int
    skipped: int
    sources: list[SourceCount]
    delayed: dict[str, int]
    trim_to: int = 0
    """The hold log is no longer needed below."""
    fates: dict[str, int] = msgspec.field(default_factory=dict)
    overtaken: int = 0
    """Events that something in the log spoke against by then."""
    put_off: int = 0
    failed: int = 0
    """Events that could not be worked out: buried as they were, or put off."""
    late_ms: list[int] = msgspec.field(default_factory=lambda: [0] * (len(LATENESS_MS) + 1))
    """How late entries were when they were found, counted by `LATENESS_MS`."""
    late_sum_ms: int = 0
    act_ms: int = 0
    halves: dict[str, int] = msgspec.field(default_factory=dict)
    """Half messages by queue."""
    next_lapse_ms: int = 0
    """When the fold has something to emit again; 0: it knows of nothing."""
    has_all: bool = True
    """Whether these are all sources there are."""
    forgotten: list[tuple[bytes, int, str]] = msgspec.field(default_factory=list)
    """Sources that are known no more."""

    def settled(self, events: Iterable[Event], fates: Iterable[str]) -> None:
        """Count what became of these."""
        for event in events:
            late_ms = self.clock_ms - event.lapse_ms
            self.late_ms[bisect_left(LATENESS_MS, late_ms)] += 1
            self.late_sum_ms += late_ms
        for fate in fates:
            self.fates[fate] = self.fates.get(fate, 0) + 1


def of(topic: str, partition: int, batch: Batch) -> Report:
    """A report with nothing done yet."""
    return Report(
        topic,
        partition,
        batch.end,
        batch.clocks.clock_ms,
        batch.claims,
        batch.skipped,
        batch.sources,
        batch.delayed,
        halves=batch.halves,
        next_lapse_ms=batch.next_lapse_ms,
        has_all=batch.has_all,
        forgotten=batch.forgotten,
    )


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Report).decode
