"""A queue: send to it, receive from it, handle its messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, Unpack

from msgspec.structs import replace

from marq import dead_letters
from marq.backend import Backend, Handing, Inbox
from marq.checking import CheckFunction
from marq.core import names
from marq.core.catalog import options as queue_options
from marq.core.catalog.definitions import Catalog, QueueDefinition
from marq.core.catalog.options import QueueChanges
from marq.core.duration import Duration, milliseconds
from marq.core.messages import sending
from marq.core.messages.group_options import ProducerGroupOptions
from marq.core.messages.sending import SendOptions
from marq.core.messages.stored import Stored
from marq.core.subject import Subject
from marq.dead_letters import OnProgress, Stop, Where
from marq.errors import ConfigError, QueueError
from marq.half import ProducerGroup
from marq.message import DeadLetter, Delivery, Sent, Stats
from marq.receipt import Receipt
from marq.work.handler import Handler
from marq.work.worker import Worker

MAX_DELAY_MS = 30 * 86_400_000
_ASYNC_WAIT_S = 0.5
_ALL = 1 << 40

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


class QueueOwner(Protocol):
    """What made a queue and runs its handler: the broker."""

    def run(self, *queues: Queue[Any], until_idle: bool = False) -> None: ...

    def worker(self, *queues: Queue[Any]) -> Worker: ...


class Queue(Generic[T]):
    """A named queue of a broker. Made by `broker.queue(...)`."""

    def __init__(
        self, backend: Backend, name: str, type: Any = None, max_delay_ms: int = MAX_DELAY_MS
    ) -> None:
        self.name = name
        self.type = type
        """What payloads are decoded to; None: as their content type says."""
        self.handling: Handler | None = None
        """What `handler` registered."""
        self.broker: QueueOwner | None = None
        """The broker that made it: the one that runs its handler."""
        self._backend = backend
        self._max_delay_ms = max_delay_ms
        self._inbox: Inbox | None = None
        self._dead_letters: DeadLetters | None = None
        self._producer_groups: list[ProducerGroup] = []

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"

    # Sending.

    def send(self, payload: Any, **options: Unpack[SendOptions]) -> Sent:
        """Send a message; returns when it is durable."""
        (receipt,) = self._backend.send_at_once(self.name, [self._message(payload, options)])
        return receipt.result()

    def send_nowait(self, payload: Any, **options: Unpack[SendOptions]) -> Receipt[Sent]:
        """Send a message; the light result tells when it is durable."""
        if type(payload) is bytes and not options:
            return self._backend.send_bytes(self.name, payload)  # nothing to check or encode
        return self._backend.send(self.name, self._message(payload, options))

    def send_many(self, payloads: Iterable[Any], **options: Unpack[SendOptions]) -> list[Sent]:
        """Send messages with the same options; returns when all are durable.

        All are checked before the first is sent.
        """
        messages = [self._message(each, options) for each in payloads]
        if options.get("message_id") is not None and len(messages) > 1:
            raise ConfigError("message_id is one message's: send them one by one")
        return _all(self._backend.send_at_once(self.name, messages))

    def _message(self, payload: Any, options: SendOptions) -> sending.Message:
        message = sending.message(payload, options, self._max_delay_ms)
        if message.due_ms:
            sending.refuse_too_long(message.due_ms - self._backend.now_ms(), self._max_delay_ms)
        return message

    def cancel(self, sent: Sent) -> bool:
        """True iff it was parked and the cancel came in time; then it is never handed out."""
        return self._backend.cancel(sent)

    def flush(self, timeout: Duration | None = None) -> None:
        """Wait until everything sent and settled so far is durable."""
        self._backend.flush(None if timeout is None else milliseconds(timeout, "timeout") / 1_000)

    # Receiving.

    def receive(
        self, max: int = 1, wait: Duration = "0s", lease: Duration | None = None
    ) -> list[Delivery[T]]:
        """At most `max` messages, waiting at most `wait` for the first; settle each one."""
        if not isinstance(max, int) or isinstance(max, bool) or max < 1:
            raise ConfigError(f"max must be a whole number from 1 up, not {max!r}")
        wait_s = milliseconds(wait, "wait") / 1_000
        lease_ms = None if lease is None else queue_options.lease_ms(lease)
        return self.inbox().take(max, wait_s, Handing(lease_ms, wanted=self.type))

    async def deliveries(self, lease: Duration | None = None) -> AsyncIterator[Delivery[T]]:
        """Messages as they come, for asyncio."""
        while True:
            for delivery in await self._receive_async(lease):
                yield delivery

    async def _receive_async(self, lease: Duration | None) -> list[Delivery[T]]:
        taken: Future[list[Delivery[T]]] = Future()
        receive = partial(self.receive, wait=_ASYNC_WAIT_S, lease=lease)
        try:
            await asyncio.to_thread(_fulfil, taken, receive)
        except asyncio.CancelledError:
            # The thread cannot be interrupted: what it still takes is for someone else.
            taken.add_done_callback(_give_back)
            raise
        return taken.result()

    def inbox(self) -> Inbox:
        """This process's end of the queue, opened on first use."""
        if self._inbox is None:
            self._inbox = self._backend.inbox(self.name)
        return self._inbox

    def close(self) -> None:
        """Give back what was fetched and not handed out, and answer no more checks."""
        while self._producer_groups:
            self._producer_groups.pop().close()
        if self._inbox is not None:
            self._inbox.close()
            self._inbox = None

    # Half messages.

    def producer_group(
        self, name: str, *, check: CheckFunction, **options: Unpack[ProducerGroupOptions]
    ) -> ProducerGroup:
        """The producer group of this name, made if there is none: for half messages.

        `check` is asked whether the local transaction of one has happened. As long as the group is
        open, this process answers for all of it.
        """
        group = ProducerGroup(self._backend, self.name, name, check, self._max_delay_ms, **options)
        self._producer_groups.append(group)
        return group

    def delete_producer_group(self, name: str) -> None:
        """Delete a producer group; refused while half messages of it are open."""
        self._backend.halves.delete_group(self.name, names.producer_group(name))
        for group in [each for each in self._producer_groups if each.name == name]:
            group.close()
            self._producer_groups.remove(group)

    # Handling.

    def handler(
        self, concurrency: int = 16, timeout: Duration = "12h", batch: bool = False
    ) -> Callable[[F], F]:
        """Register the function that handles the queue's messages: return = ack."""
        if callable(concurrency):
            raise ConfigError("write @queue.handler() with parentheses")

        def register(function: F) -> F:
            if self.handling is not None:
                raise ConfigError(f"queue {self.name!r} has a handler already: a queue has one")
            self.handling = Handler.of(function, self.type, concurrency, timeout, batch)
            return function

        return register

    # Managing.

    @property
    def definition(self) -> QueueDefinition:
        """The options in force."""
        return self._definition(self._backend.catalog())

    def _definition(self, catalog: Catalog) -> QueueDefinition:
        found = catalog.queue(self.name)
        if found is None:
            raise ConfigError(f"there is no queue {self.name!r}: it was deleted")
        return found

    def update(self, **changes: Unpack[QueueChanges]) -> None:
        """Change options for deliveries from now on."""
        if fixed := sorted(queue_options.FIXED & changes.keys()):
            raise ConfigError(f"{fixed[0]} cannot change once the queue exists")
        self._alter(**queue_options.definition_fields(changes))

    def pause(self) -> None:
        """Hand nothing out until `resume`; sending goes on."""
        self._alter(paused=True)

    def resume(self) -> None:
        """Hand messages out again."""
        self._alter(paused=False)

    def _alter(self, **fields: Any) -> None:
        # Someone else may change the queue between reading and writing: then look again.
        while True:
            known = self._backend.catalog()
            version = known.queue_version(self.name)
            definition = replace(self._definition(known), **fields)
            if self._backend.change(self.name, definition, version):
                return

    def purge(self) -> None:
        """Void all that was sent before, in flight and delayed too."""
        self._backend.purge(self.name)

    def stats(self) -> Stats:
        """Counts of the queue, about a second old."""
        return self._backend.stats(self.name)

    @property
    def dead_letters(self) -> DeadLetters:
        """The queue's dead letters, a queue too."""
        if self._dead_letters is None:
            self._dead_letters = DeadLetters(self._backend, self.name)
            self._dead_letters.broker = self.broker
        return self._dead_letters


class DeadLetters(Queue[Any]):
    """A queue of what could not be delivered. Its messages have no attempts to run out of."""

    def __init__(self, backend: Backend, queue: str) -> None:
        super().__init__(backend, Subject(queue).letters)

    def list(self, limit: int = 100, where: Where | None = None) -> list[DeadLetter]:
        """The oldest dead letters, those `where` is true of; nothing changes."""
        return [DeadLetter(stored) for stored in self._chosen(dead_letters.checked(limit), where)]

    def redrive(
        self,
        limit: int | None = None,
        rate: float | None = None,
        where: Where | None = None,
        *,
        progress: OnProgress | None = None,
        stop: Stop | None = None,
    ) -> int:
        """Send dead letters to whoever had them again, oldest first: attempts from 1, history kept.

        At most `limit` of them, at most `rate` a second, those `where` is true of. Returns how
        many. One that dies again meanwhile is not sent twice, nor one that someone else redrives.
        `progress` hears how many are done so far; once `stop` is set it returns after those in
        hand.
        """
        if rate is not None and not (isinstance(rate, int | float) and rate > 0):
            raise ConfigError(f"rate must be above 0 messages a second, not {rate!r}")
        found = dead_letters.chunks(self._chosen(limit, where, stop), rate)
        redriven = self._backend.redrive(dead_letters.paced(found, rate, stop))
        return dead_letters.counted(redriven, progress)

    def discard(
        self,
        limit: int | None = None,
        where: Where | None = None,
        *,
        progress: OnProgress | None = None,
        stop: Stop | None = None,
    ) -> int:
        """Remove dead letters for good, oldest first; returns how many. `progress` and `stop` as
        for redrive."""
        found = dead_letters.chunks(self._chosen(limit, where, stop))
        return dead_letters.counted(self._backend.discard(found), progress)

    def purge(self) -> None:
        """Discard them all."""
        self.discard()

    def _alter(self, **fields: Any) -> None:
        raise ConfigError("dead letters have no options and are never paused: they only wait")

    def _chosen(
        self, limit: int | None, where: Where | None, stop: Stop | None = None
    ) -> Iterator[Stored]:
        dead_letters.refuse_unless_callable(where)
        left = None if limit is None else dead_letters.checked(limit)
        letters = self._backend.peek(self.name, _ALL if where or left is None else left)
        return dead_letters.chosen(iter(letters), left, where, stop)


def _all(receipts: list[Receipt[Sent]]) -> list[Sent]:
    """What all were sent as. Each receipt is asked: a flush would report once more what was refused
    after the first error."""
    found: list[Sent] = []
    refused: QueueError | None = None
    for receipt in receipts:
        try:
            found.append(receipt.result())
        except QueueError as error:
            refused = refused or error
    if refused is not None:
        raise refused
    return found


def _fulfil(taken: Future[T], call: Callable[[], T]) -> None:
    try:
        taken.set_result(call())
    except BaseException as error:
        taken.set_exception(error)


def _give_back(taken: Future[list[Delivery[T]]]) -> None:
    for delivery in [] if taken.exception() else taken.result():
        delivery.give_back()
