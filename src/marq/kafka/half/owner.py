"""Half messages of a process on Kafka: what the port asks for, each in its place."""

from __future__ import annotations

from weakref import WeakSet

from marq.backend import HalfSending, Requests, SeenHalf
from marq.core.fate import halves
from marq.core.markers.marker import Check, HalfAnswer
from marq.core.messages.sending import Message
from marq.core.messages.stored import ANY_PARTITION, Outgoing
from marq.errors import ConfigError, PayloadError, QueueError
from marq.kafka.access import Access
from marq.kafka.client import config
from marq.kafka.half import registry, requests, seen
from marq.kafka.half.keeper import Keeper
from marq.kafka.half.opened import HalfResult, KafkaHalf
from marq.receipt import Receipt

_HEADERS_BYTES = 400
"""What marq says of a message, at most: its id may have 256 characters."""
_LINGER_MS = 1


class KafkaHalves:
    """Half messages of a process; made when they are first used."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self.topic = access.space.delayed
        settings = config.producer(access.servers, access.extra, _LINGER_MS)
        self._keeper = Keeper(settings, self.topic)
        self._limits: dict[str, int] = {}
        """By queue, the most bytes that its topic takes of a record."""
        self._is_child = False
        self._requests: WeakSet[requests.KafkaRequests] = WeakSet()

    # Producer groups.

    def open_group(self, queue: str, group: str) -> int:
        made = registry.opened(self._access, queue, group)
        self._limits[queue] = registry.most_bytes(self._access, queue)
        return made

    def delete_group(self, queue: str, group: str) -> None:
        registry.delete(self._access, queue, group)

    def requests(self, group: str) -> Requests:
        found = requests.KafkaRequests(self._access, group)
        self._requests.add(found)
        return found

    def seen(self) -> list[SeenHalf]:
        return seen.open_halves(self._access)

    def answer(self, partition: int, answer: HalfAnswer) -> Receipt[None]:
        return self._keeper.append(partition, answer)

    # Sending.

    def send(self, message: Message, terms: HalfSending, waits: bool) -> Receipt[KafkaHalf]:
        self._refuse(message, terms)
        self._keeper.started()
        sender = self._access.senders.at_once(1) if waits else self._access.sender
        half = KafkaHalf(self, message, terms, sender)
        result = HalfResult(sender.waiting, None, _half=half)
        headers = halves.half_headers(terms.queue, terms.half, message)
        record = Outgoing(self.topic, ANY_PARTITION, message.key, message.value, headers)
        sender.send_for(record, result)
        return result

    def _refuse(self, message: Message, terms: HalfSending) -> None:
        """Refuse what could not be committed."""
        group, wanted = terms.half.group, (terms.queue, terms.half.made)
        if self._access.recent_catalog().producer_group(group) != wanted:
            raise ConfigError(halves.deleted(group, terms.queue))
        said = sum(len(name) + len(value or b"") + 8 for name, value in message.headers)
        size = len(message.value) + len(message.key or b"") + said + _HEADERS_BYTES
        most = self._limits.get(terms.queue, size)
        if size > most:
            raise PayloadError(
                f"the payload of {len(message.value)} bytes is too large for a message of queue "
                f"{terms.queue!r} ({most} bytes with its headers): send a reference to it",
                size=len(message.value),
            )

    def now_ms(self) -> int:
        return self._keeper.now_ms()

    def refuse_elsewhere(self) -> None:
        if self._is_child:
            raise QueueError(
                "this half message is of the process that this one was forked from: decide it there"
            )
        if self._keeper.failure is not None:
            raise self._keeper.failure

    def look_up(self, half: KafkaHalf) -> None:
        """When the log took it, where its report did not say."""
        half.lies_since(seen.appended_ms(self._access, half.partition, half.offset))

    # What is open.

    def keep(self, half: KafkaHalf) -> None:
        self._keeper.keep(half)

    def let_go(self, half: KafkaHalf) -> None:
        self._keeper.let_go(half)

    def end(self, half: KafkaHalf) -> Receipt[None]:
        return self._keeper.end(half)

    def end_soon(self, half: KafkaHalf) -> None:
        self._keeper.end_soon(half)

    def leave_to_tracker(self, half: KafkaHalf) -> Receipt[None]:
        """Somebody may have been asked by now, and the tracker be about to write the final: let it
        write the only one."""
        self.let_go(half)
        return self._keeper.append(half.partition, HalfAnswer((half.ref,), Check.COMMIT))

    # Closing.

    def forked(self) -> None:
        """This is a child: what is open is its parent's."""
        self._is_child = True
        self._keeper.forked()

    def flush(self, timeout_s: float | None) -> bool:
        """Write the ends that have gathered, and wait for the log."""
        return self._keeper.flush(timeout_s)

    def in_hands(self) -> bool:
        """Whether something is open that may still be decided here."""
        return self._keeper.in_hands()

    def leave(self) -> None:
        """Leave the groups: others need not find out that nobody answers here any more."""
        for each in list(self._requests):
            each.close()

    def close(self) -> None:
        self.leave()
        self._keeper.close()
