"""What is measured: cases, variants, and the figures that come of it."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

PARTITIONS = 4
SMALL_BATCH = 20
"""Records of a small producer batch."""

Batches = Literal["large", "small"]

CONSUMING = {
    "bare": "bare consume()",
    "share": "ShareConsumer, tuned",
    "share-stock": "ShareConsumer, as it comes",
    "pull": "marq receive + ack",
    "pair": "the same by two processes",
    "batch": "marq handler, batch=True",
    "handler": "marq handler",
}
"""Variants that read a topic, by what they are called in a table."""
SENDING = {"produce": "bare produce + callback", "send": "marq send_nowait"}
HOLDING = {"hold": "marq, open messages held"}
TITLES = {**CONSUMING, **SENDING, **HOLDING}
OURS = frozenset({"pull", "pair", "batch", "handler"})
"""Variants that read as a queue, and write markers."""
SHORT = ("bare", "share", "share-stock", "pull")
"""What is measured in each case; the others in the first only."""
_MOST_BYTES = 300_000_000
"""Of a topic of large messages: disk and patience end."""


class Case(msgspec.Struct, frozen=True):
    """What lies in a topic."""

    size: int
    """Bytes of a message."""
    batches: Batches = "large"
    messages: int = 1_000_000
    is_short: bool = False
    """Whether it is as short as that the start counts."""

    @property
    def bytes_each(self) -> str:
        return f"{self.size} B" if self.size < 1_024 else f"{self.size / 1_024:g} KiB"

    def __str__(self) -> str:
        return f"{self.messages:,} of {self.bytes_each}, {self.batches} batches"


class Plan(msgspec.Struct, frozen=True):
    """One run of the benchmark."""

    messages: int = 1_000_000
    rounds: int = 5
    stocks: tuple[tuple[int, Batches], ...] = ((100, "large"), (100, "small"), (1_024, "large"))
    """Sizes and producer batches of what is read."""
    variants: tuple[str, ...] = tuple(CONSUMING)
    held: int = 100_000
    """Messages a worker holds open while its memory is measured."""

    @property
    def cases(self) -> list[Case]:
        """What is read; at last the first once more, a tenth of it, so that the start counts."""
        found = [Case(size, batches, self.messages_of(size)) for size, batches in self.stocks]
        return [*found, replace(found[0], messages=self.messages // 10, is_short=True)]

    def messages_of(self, size: int) -> int:
        """How many of that size are read or sent."""
        return min(self.messages, _MOST_BYTES // size)

    @property
    def sizes(self) -> list[int]:
        return list(dict.fromkeys(size for size, _ in self.stocks))

    def variants_of(self, case: Case) -> tuple[str, ...]:
        """What is measured in a case."""
        is_first = case == self.cases[0]
        return tuple(each for each in self.variants if is_first or each in SHORT)


QUICK = Plan(messages=100_000, rounds=1)


class Measurement(msgspec.Struct, frozen=True):
    """One measurement, as it is told to its process."""

    variant: str
    servers: str
    queue: str
    messages: int
    size: int


class Figures(msgspec.Struct, frozen=True):
    """What a process measured of itself, from its first message to its last."""

    messages: int
    """Messages of that time: without those the first call brought."""
    seconds: float
    cpu_s: float
    peak_mb: float

    @property
    def rate(self) -> float:
        """Messages a second; 0 where all came with the first call, and nothing can be told."""
        return self.messages / self.seconds

    @property
    def cpu_per_million(self) -> float:
        return self.cpu_s / self.messages * 1e6 if self.messages else 0.0


class Measured(msgspec.Struct, frozen=True):
    """One measurement with what the logs say about it."""

    variant: str
    case: Case
    round: int
    figures: Figures
    markers: int = 0
    """Marker records it wrote."""
    acked: int | None = None
    """Messages acked by a fold of those records; None where there are none."""
