"""The stats topic: counts of every queue, written by the tracker and followed by clients.

A record is JSON by its queue's name (or `<queue>/<part of it>`); a field that is missing is 0, one
that is not known is left out, and what cannot be read is nobody's: the tracker may be of another
release.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Annotated, Any

import msgspec
from confluent_kafka import (
    OFFSET_BEGINNING,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from msgspec import Meta
from msgspec.structs import asdict

from marq.errors import ConfigError
from marq.kafka.client import codes
from marq.kafka.client.config import Config
from marq.kafka.client.making import Consumer, take
from marq.kafka.client.refusals import refusal
from marq.kafka.client.renewed import RenewedProducer
from marq.message import Stats

log = logging.getLogger("marq.kafka")

_ALIVE = ""
"""The key of the tracker's sign of life."""
FEATURES = ("newer-entries", "catalog-snapshots", "catalog-groups", "halves")
"""What this release's tracker knows, by name: a client may need one that not every tracker has."""
AGAIN_S = 60.0
"""So often all is written though it has not changed: a tracker that was replaced may have written
since, and a producer may have been given up with what it had not written. Of more than a thousand
queues less often."""
AT_ONCE = 250
"""So many records are written in a round, half a second, at most; others wait for their turn."""
LATE_MS = 10_000
"""After so long without a sign of life no tracker counts."""
_Count = Annotated[int, Meta(ge=0, le=1 << 62)]


class Sign(msgspec.Struct, frozen=True):
    """A tracker's sign of life."""

    at_ms: _Count = 0
    """When it was given, by the log's clock; 0: never."""
    features: tuple[str, ...] = ()
    """What that tracker knows."""


class Counts(msgspec.Struct, frozen=True):
    """What was counted of a queue: the same, as long as nothing happens to it."""

    ready: _Count = 0
    in_flight: _Count = 0
    delayed: _Count = 0
    dead: _Count = 0
    halves: _Count = 0
    oldest_ms: _Count = 0
    """When the oldest open message was sent; 0: there is none, or an earlier release wrote this."""

    def age(self, now_ms: int) -> float:
        """Seconds since then."""
        return max(0, now_ms - self.oldest_ms) / 1_000 if self.oldest_ms else 0.0


class _Record(Counts, frozen=True):
    oldest_age: Annotated[float, Meta(ge=0)] = 0.0
    """As of when this was written, for earlier releases."""
    made: _Count = 0
    """The version that made the queue; 0: an earlier release wrote this."""

    def stats(self, now_ms: int) -> Stats:
        age = self.age(now_ms) if self.oldest_ms else self.oldest_age
        return Stats(self.ready, self.in_flight, self.delayed, self.dead, age, self.halves)


_sign = msgspec.json.Decoder(Sign)
_record = msgspec.json.Decoder(_Record)


class StatsWriter:
    """Writes the counts that have changed, now and then all, and a sign of life each time."""

    def __init__(
        self,
        settings: Config,
        reader: Config,
        topic: str,
        timeout_s: float = 10.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now = now
        self._all_at = now() + AGAIN_S
        self._left: set[str] = set()
        """Of what an earlier tracker has left records."""
        self._topic = topic
        self._producer = RenewedProducer({**settings, "message.timeout.ms": 5_000})
        self._reader = StatsReader(reader, topic, timeout_s)
        self._said: dict[str, tuple[Counts, int] | None] = {}
        """What the topic is to have, with the version that made the queue; None: nothing."""
        self._waiting: dict[str, None] | None = None
        """What is to be written, in turn; None: not looked yet what an earlier tracker left."""

    def write(self, counts: Mapping[str, Counts], at_ms: int, queues: Mapping[str, int]) -> None:
        """Write these, and remove what belongs to none of the queues, which are given with the
        versions that made them."""
        if self._waiting is None:
            self._waiting = {}
            self._left = set(self._reader.keys())
            self._reader.close()
        for key, found in counts.items():
            self._say(key, (found, queues.get(key.partition("/")[0], 0)))
        for key in [*self._said, *self._left]:
            if key.partition("/")[0] not in queues:
                self._say(key, None)
                self._left.discard(key)
        if self._now() >= self._all_at:
            self._all_at = self._now() + AGAIN_S * max(1, len(self._said) / 1_000)
            self._waiting |= dict.fromkeys(self._said)
        for key in list(islice(self._waiting, AT_ONCE)):
            del self._waiting[key]
            self._put(key, at_ms)
        self._produce(_ALIVE, msgspec.json.encode(Sign(at_ms, FEATURES)))
        self._producer.poll(0)
        if (refused := self._producer.refused()) is not None:
            raise refused

    def flush(self, timeout_s: float) -> bool:
        """Wait until all is in the topic; whether it is."""
        return self._producer.flush(timeout_s)

    def _say(self, key: str, said: tuple[Counts, int] | None) -> None:
        assert self._waiting is not None
        if key not in self._said or self._said[key] != said:
            self._said[key] = said
            self._waiting[key] = None

    def _put(self, key: str, at_ms: int) -> None:
        said = self._said[key]
        if said is None:
            del self._said[key]
            return self._produce(key, None)
        counts, made = said
        record = _Record(**asdict(counts), oldest_age=counts.age(at_ms), made=made)
        self._produce(key, msgspec.json.encode(record))

    def _produce(self, key: str, value: bytes | None) -> None:
        def report(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                self._again(key)  # the broker is away: the next round writes it

        if not self._producer.produce(self._topic, value, key.encode(), partition=0, told=report):
            self._again(key)

    def _again(self, key: str) -> None:
        assert self._waiting is not None
        if key:
            self._said.setdefault(key, None)
            self._waiting[key] = None


class StatsReader:
    """Follows the topic; one reader, one lock."""

    def __init__(self, settings: Config, topic: str, timeout_s: float) -> None:
        self._settings = settings
        self._topic = topic
        self._timeout_s = timeout_s
        self._consumer: Consumer | None = None
        self._lock = threading.Lock()
        self._counts: dict[str, _Record | None] = {}
        """By key; None: a record that cannot be read."""
        self.alive_ms = 0
        """When the tracker last gave a sign of life; 0: never."""
        self.features: frozenset[str] = frozenset()
        """What the tracker knows, as of then."""

    def read(self, queue: str, now_ms: int, made: int = 0) -> Stats | None:
        """The counts of the queue that this version made, as a tracker last wrote them; None if it
        never did. A queue made again inherits none."""
        with self._lock:
            self._follow()
            found = self._counts.get(queue)
        return found.stats(now_ms) if found and (not made or found.made in (0, made)) else None

    def keys(self) -> list[str]:
        """Of what there are records."""
        with self._lock:
            self._follow()
            return list(self._counts)

    def sign(self) -> Sign:
        """The tracker's last sign of life."""
        with self._lock:
            self._follow()
            return Sign(self.alive_ms, tuple(sorted(self.features)))

    def require(self, feature: str) -> None:
        """Refuse to go on if a tracker runs that does not know this; where none ever ran, one of
        this release may come."""
        with self._lock:
            self._follow()
            if self.alive_ms and feature not in self.features:
                raise ConfigError(
                    f"this needs a newer tracker: the one that runs knows no {feature!r}; upgrade "
                    f"the tracker first, then workers, then senders"
                )

    def _follow(self) -> None:
        until = time.monotonic() + self._timeout_s
        if self._consumer is None:
            self._consumer = Consumer({**self._settings, "enable.partition.eof": True})
            self._consumer.assign([TopicPartition(self._topic, 0, OFFSET_BEGINNING)])
            while not self._take(0.1) and time.monotonic() < until:
                pass  # from the start to the end, once
        while self._take(0.0) is None:
            pass

    def _take(self, wait_s: float) -> bool | None:
        """Apply what has come; True at the end of the log, None if there may be more at once."""
        assert self._consumer is not None
        batch = take(self._consumer, 1_000, wait_s)
        at_end = False
        for message in batch:
            error = message.error()
            if error is None:
                self._apply(message)
            else:
                at_end |= self._is_end(error)
        if at_end:
            return True
        return None if batch else False

    def _is_end(self, error: KafkaError) -> bool:
        """Whether this is the end of the log; where the log is another one now, begin anew."""
        if codes.is_unreadable(error):
            servers = self._settings["bootstrap.servers"]
            raise refusal(KafkaException(error), servers, f"READ on topic {self._topic!r}")
        if codes.is_off_the_log(error):
            assert self._consumer is not None
            self._counts.clear()
            self._consumer.assign([TopicPartition(self._topic, 0, OFFSET_BEGINNING)])
        return codes.is_end(error)

    def _apply(self, message: Any) -> None:
        key, value = (message.key() or b"").decode("utf-8", "replace"), message.value()
        try:
            if key == _ALIVE:
                sign = _sign.decode(value or b"")
                self.alive_ms, self.features = sign.at_ms, frozenset(sign.features)
            elif value is None:
                self._counts.pop(key, None)
            else:
                self._counts[key] = None
                self._counts[key] = _record.decode(value)
        except (msgspec.MsgspecError, RecursionError, ValueError) as error:
            about = {"offset": message.offset(), "error": str(error)}
            log.info("not a record of counts", extra=about)

    def close(self) -> None:
        with self._lock:
            if self._consumer is not None:
                self._consumer.close()
                self._consumer = None
