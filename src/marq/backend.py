"""The port between what a user touches and what carries it: memory now, Kafka beside it.

Everything above it (queue, broker, worker) knows only these names; everything below it (the memory
broker, the Kafka client) offers them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from msgspec import Struct

from marq.core.catalog.definitions import Catalog, QueueDefinition
from marq.core.fold.parked import Answers
from marq.core.markers.marker import HalfAnswer, ParkedRef
from marq.core.messages.header import Headers
from marq.core.messages.request import Request
from marq.core.messages.sending import Message
from marq.core.messages.stored import Stored
from marq.core.messages.terms import HalfTerms
from marq.core.names import Space
from marq.groups.config import GroupConfig
from marq.groups.names import GroupNames
from marq.groups.table import Table
from marq.member import GroupHandler, Instance
from marq.message import Delivery, Sent, Stats
from marq.receipt import Receipt


class Handing(Struct, frozen=True, gc=False):
    """How messages are handed out."""

    lease_ms: int | None = None
    """None: as the queue says."""
    kept_alive: bool = False
    """Whether the lease is renewed while the process lives: for handlers, not for pull."""
    wanted: Any = None
    """The type payloads are decoded to."""
    at_once: int | None = None
    """So many of them in one call at most, where more are wanted as soon as may be."""
    alone: bool | None = None
    """True: one suspect, nothing else. False: no suspect. None: whatever comes, as for pull."""


class Inbox(Protocol):
    """Where the messages of a queue reach this process."""

    def take(self, limit: int, wait_s: float, handing: Handing) -> list[Delivery[Any]]:
        """At most `limit` messages; waits at most `wait_s` for the first. Their leases start."""
        ...

    def at_hand(self, handing: Handing) -> Iterator[Delivery[Any]]:
        """What goes with the last message taken so, one by one as they are asked for, by any
        thread: the lease of each starts then, and none is kept from whoever takes."""
        ...

    def suspects(self) -> int:
        """Messages that wait to be handed out alone: one of them may have killed its process."""
        ...

    def close(self) -> None:
        """Give back what was not handed out."""
        ...


class HalfSending(Struct, frozen=True, gc=False):
    """What a half message is sent with."""

    queue: str
    half: HalfTerms
    timeout_ms: int
    """How long its owner keeps others from being asked."""


class OpenHalf(Protocol):
    """A half message in its owner's hands."""

    @property
    def id(self) -> str:
        """Where it lies: known once it is durable."""
        ...

    def commit(self) -> Receipt[None]:
        """Have it delivered."""
        ...

    def rollback(self) -> Receipt[None]:
        """Have it gone."""
        ...

    def let_go(self) -> None:
        """Keep nobody from being asked about it any more."""
        ...


class Asked(Struct, frozen=True, gc=False):
    """A request about a half message, as a member gets it."""

    request: Request
    headers: Headers
    value: bytes


class Requests(Protocol):
    """Where a member of a producer group is asked."""

    def take(self, wait_s: float) -> list[Asked]:
        """What is asked; waits at most so long for the first."""
        ...

    def close(self) -> None:
        """Leave it to others."""
        ...


class SeenHalf(Struct, frozen=True, gc=False):
    """An open half message, as a look at the log finds it."""

    stored: Stored
    ref: ParkedRef
    asked: int
    answers: Answers
    is_decided: bool
    """Committed or given up: the tracker is about to see to it."""


class Halves(Protocol):
    """What carries half messages."""

    def open_group(self, queue: str, group: str) -> int:
        """See to it that the queue has this producer group; the version that made the queue."""
        ...

    def delete_group(self, queue: str, group: str) -> None:
        """Let there be no such producer group; refused while half messages of it are open."""
        ...

    def send(self, message: Message, terms: HalfSending, waits: bool) -> Receipt[OpenHalf]:
        """Send a half message; answered when it is durable. `waits`: whoever sends it waits for
        that, and does nothing else meanwhile."""
        ...

    def answer(self, partition: int, answer: HalfAnswer) -> Receipt[None]:
        """Append what a member or an operator says."""
        ...

    def requests(self, group: str) -> Requests:
        """A member's end of the producer group in this process."""
        ...

    def seen(self) -> list[SeenHalf]:
        """All that are open, oldest first."""
        ...


class Groups(Protocol):
    """The ordered groups of a cluster."""

    @property
    def brokers(self) -> int:
        """How many keep a copy of each record."""
        ...

    def all(self) -> list[GroupNames]:
        """The groups there are."""
        ...

    def find(self, names: GroupNames) -> GroupConfig | None:
        """The group's config; None if there is no such group."""
        ...

    def config(self, names: GroupNames) -> GroupConfig:
        """The group's config; `ConfigError` if there is no such group."""
        ...

    def table(self, names: GroupNames) -> Table:
        """Who shall have which partitions, and who has them."""
        ...

    def look(self, names: GroupNames) -> tuple[Table, dict[str, str]]:
        """The table, and the active instance of each member."""
        ...

    def create(self, names: GroupNames, wanted: GroupConfig) -> GroupConfig:
        """Create the group, unless there is one; what is in force."""
        ...

    def change(self, names: GroupNames, how: Callable[[GroupConfig], GroupConfig]) -> GroupConfig:
        """Change the membership."""
        ...

    def step_down(self, names: GroupNames, member: str) -> bool:
        """Have another instance of the member take over; False: none was active."""
        ...

    def delete(self, names: GroupNames) -> None:
        """Delete a group, or what is left of one."""
        ...

    def delete_all_of(self, queue: str) -> None:
        """Delete every group of the queue."""
        ...

    def consume(
        self,
        names: GroupNames,
        member: str,
        handler: GroupHandler,
        *,
        acks_on_return: bool,
        **hooks: Callable[[Instance], object],
    ) -> Instance:
        """A new instance of the member."""
        ...

    def close_router(self, names: GroupNames) -> None:
        """Copy no more from the queue to the group in this process."""
        ...

    def send(self, names: GroupNames, message: Message, partition: int) -> Receipt[Sent]:
        """Send to one partition of the group's queue."""
        ...

    def waiting(self, names: GroupNames, config: GroupConfig) -> list[int]:
        """By partition, messages in the group's topic that are not acked."""
        ...


class Backend(Protocol):
    """What carries queues."""

    @property
    def halves(self) -> Halves:
        """Half messages there."""
        ...

    @property
    def space(self) -> Space:
        """The names of what is marq's own there."""
        ...

    def now_ms(self) -> int:
        """The log's clock, never ahead of it."""
        ...

    def catalog(self) -> Catalog:
        """The definitions, as far as the log goes now."""
        ...

    def change(self, name: str, definition: QueueDefinition | None, version: int) -> bool:
        """Create, alter or (None) delete a queue whose record had this version; False if someone
        else changed it since."""
        ...

    def create_all(self, queues: Sequence[str], definition: QueueDefinition) -> None:
        """Create those of these queues that are not there, together."""
        ...

    def purge(self, name: str) -> None:
        """Void everything sent to the queue so far."""
        ...

    def send(self, queue: str, message: Message) -> Receipt[Sent]:
        """Send it; the receipt tells where it is once it is durable."""
        ...

    def send_at_once(self, queue: str, messages: Sequence[Message]) -> list[Receipt[Sent]]:
        """The same for whoever waits for all of these: they do not wait for others to come."""
        ...

    def send_bytes(self, queue: str, value: bytes) -> Receipt[Sent]:
        """Send a message that is nothing but its payload: the fast way."""
        ...

    def cancel(self, sent: Sent) -> bool:
        """True iff it was parked and the cancel reached the log in time."""
        ...

    def inbox(self, queue: str) -> Inbox:
        """An end of the queue in this process."""
        ...

    def peek(self, topic: str, limit: int) -> Iterable[Stored]:
        """Messages that wait and are nobody's now, oldest first; nothing changes."""
        ...

    def redrive(self, chunks: Iterable[list[Stored]]) -> Iterator[int]:
        """Send dead letters to where they are read again and end them here, one chunk after the
        other as it is asked for; how many of each: what someone else has claimed meanwhile is not
        sent."""
        ...

    def discard(self, chunks: Iterable[list[Stored]]) -> Iterator[int]:
        """End dead letters; how many of each chunk: not those that someone else has claimed
        meanwhile."""
        ...

    def groups(self) -> Groups | None:
        """Its ordered groups; None: it has none and never will."""
        ...

    def stats(self, queue: str) -> Stats:
        """Counts of the queue, about a second old."""
        ...

    def counted(self, queue: str) -> Stats:
        """Counts of the queue at this very moment; may cost a look at the logs."""
        ...

    def flush(self, timeout_s: float | None) -> None:
        """Wait until everything sent and settled so far is durable."""
        ...

    def close(self) -> None:
        """Let go of everything; again is harmless."""
        ...
