"""Markers: the small records that hold logs are made of, as values.

Times in a marker are durations that count from its append time, for only the log's clock counts.
The exception is `Restate`, which the tracker writes: it repeats times reckoned from the log.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import NamedTuple

from msgspec import Struct


class ClaimId(NamedTuple):
    """Which worker claimed (64 random bits), and the number of the claim among its own."""

    worker: int
    sequence: int


class Source(NamedTuple):
    """Where claimed messages lie, and for whom they are claimed.

    The topic's id, not its name: a queue deleted and created again is another source.
    """

    topic_id: bytes
    partition: int
    queue: str
    subscription: str
    epoch: int
    """How often the subscription was sought: a replay may claim again what had ended."""


class Action(IntEnum):
    """What becomes of an open entry at its deadline."""

    EXPIRE = 0
    """A lease runs: deliver again, whoever had it is gone."""
    REDELIVER = 1
    """A retry was asked for: deliver again."""
    BURY = 2
    """Make it a dead letter, for the reason given."""
    RELEASE = 3
    """A parked message: send it to its queue."""
    CHECK = 4
    """A half message: ask its producer group."""
    EXTEND = 5
    """Only in a hold: the entry stays what it is, its deadline moves."""
    CANCEL = 6
    """Only in a hold, of a parked message: it ends, unless it was due already. An end would not
    do: it counts however late it comes, and a cancel that came late must not lose the message."""


class Claim(Struct, frozen=True, gc=False):
    """Messages polled by one worker from one source partition."""

    id: ClaimId
    source: Source
    start: int
    """The position polled from. What lies between it and the runs is nothing to deliver (control
    records, filtered messages), so that runs ever claimed stay one run."""
    runs: tuple[tuple[int, int], ...]
    """(first offset, count) ascending; the index of a message counts through them."""
    lease_ms: int
    """The pump lease: how long messages not yet begun are the worker's, from here or a beat."""


class Begun(Struct, frozen=True, gc=False):
    """Messages of a claim handed out: their lease starts."""

    indexes: int
    lease_ms: int
    attempt: int
    kept_alive: bool
    ahead_ms: int


class Step(Struct, frozen=True, gc=False):
    """What happened to the messages of one claim."""

    claim: ClaimId
    ended: int
    begun: tuple[Begun, ...] = ()


class ParkedRef(NamedTuple):
    """A parked message by its offset in this hold log, and the due time its record names.

    The record's own (append time + delay, or `at`), so that whoever parked it knows the reference,
    a state built anew from a trimmed log finds the same, and it stays when the message is put off.
    """

    due_ms: int
    offset: int


class Progress(Struct, frozen=True, gc=False):
    """Begun and ended messages of claims, and ended parked ones."""

    steps: tuple[Step, ...] = ()
    parked: tuple[ParkedRef, ...] = ()


class KeepAlive(Struct, frozen=True, gc=False):
    """One beat of one worker for all its claims in this markers partition."""

    worker: int
    sequences: tuple[int, ...]


class Held(Struct, frozen=True, gc=False):
    """Messages of a claim put under an action."""

    claim: ClaimId
    indexes: int
    action: Action
    after_ms: int = 0
    ahead_ms: int = 0
    reason: str = ""


class HeldParked(Struct, frozen=True, gc=False):
    """A parked message put off, or under another action."""

    ref: ParkedRef
    action: Action
    after_ms: int = 0
    ahead_ms: int = 0
    reason: str = ""


class Hold(Struct, frozen=True, gc=False):
    """Messages by reference, each with an action."""

    held: tuple[Held, ...] = ()
    parked: tuple[HeldParked, ...] = ()
    by_tracker: bool = False
    """The tracker's own answer to an overdue entry: never void, though it comes after the
    deadline."""


FAILED = 10
"""Failed attempts that an entry remembers."""


class Failed(NamedTuple):
    """An attempt that ended in a retry, in the hands of the same worker."""

    attempt: int
    at_ms: int
    reason: str


class Part(Struct, gc=False):
    """Messages of a claim that share everything but their offset. The fold's, and restated."""

    indexes: int
    deadline_ms: int
    ahead_ms: int = 0
    lease_ms: int = 0
    attempt: int = 0
    """The attempt begun; 0 = only prefetched."""
    kept_alive: bool = False
    action: Action = Action.EXPIRE
    reason: str = ""
    failed: tuple[Failed, ...] = ()
    """Its attempts that were retried and are in no record but the holds: the last ones."""

    @property
    def lapse_ms(self) -> int:
        """When the worker's say over it ends: a worker counts by this, not by the deadline."""
        return self.deadline_ms - self.ahead_ms


class Restated(Struct, frozen=True, gc=False):
    """A claim written down again in full, so that its older records can be trimmed."""

    id: ClaimId
    source: Source
    runs: tuple[tuple[int, int], ...]
    parts: tuple[Part, ...]


class EndedRuns(Struct, frozen=True, gc=False):
    """Offsets of a source that were claimed and have ended: they never open again."""

    source: Source
    runs: tuple[tuple[int, int], ...]


class Restate(Struct, frozen=True, gc=False):
    """What the tracker knew when it had folded up to `as_of`. A hold with the action restate."""

    as_of: int
    claims: tuple[Restated, ...] = ()
    ended: tuple[EndedRuns, ...] = ()


class Forget(Struct, frozen=True, gc=False):
    """The last that is said of sources whose topic was deleted: what of them has ended.

    A tracker that is too old to know this marker skips it, and goes on knowing the sources.
    """

    ended: tuple[EndedRuns, ...]


class Check(StrEnum):
    """What a producer group says of a half message."""

    COMMIT = "commit"
    """Its local transaction has happened: deliver it."""
    ROLLBACK = "rollback"
    """Its local transaction has not happened, and never will."""
    UNKNOWN = "unknown"
    """Nobody can say yet: ask again."""


class HalfAnswer(Struct, frozen=True, gc=False):
    """What a member of a producer group, or an operator, says of half messages."""

    halves: tuple[ParkedRef, ...]
    verdict: Check
    number: int = 0
    """Of the request that it answers; who was not asked says 0."""
    reason: str = ""


class Tick(Struct, frozen=True, gc=False):
    """Nothing but its append time."""


class Parked(Struct, frozen=True, gc=False):
    """A parked message as the fold sees it: the record itself is the hold.

    Not a marker: made from the record's `marq` header (see `core.header`).
    """

    due_ms: int
    """When `delay_ms` is 0: reckoned by the log already, or the user's `at`."""
    delay_ms: int = 0
    """Counts from the record's append time."""
    ahead_ms: int = 0
    action: Action = Action.RELEASE
    """CHECK: it is a half message."""
    queue: str = ""
    """Whose it is, for counting."""


Marker = Claim | Progress | KeepAlive | Hold | Restate | Forget | HalfAnswer | Tick
