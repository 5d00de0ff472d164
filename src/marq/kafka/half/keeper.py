"""Says for a process that the owners of its half messages live, and which of them are over.

One record says it of all that are open, and one of all that were decided in the last milliseconds.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from itertools import islice
from typing import TypeVar

from marq import lifetime, threads
from marq.core.markers import codec
from marq.core.markers.marker import (
    Action,
    HeldParked,
    Hold,
    Marker,
    ParkedRef,
    Progress,
)
from marq.errors import NotConnected, QueueError
from marq.kafka.client import answers
from marq.kafka.client.clock import BrokerClock
from marq.kafka.client.config import Config
from marq.kafka.half.opened import KafkaHalf
from marq.kafka.leasing.append_time import AppendTime
from marq.kafka.marking.marker_producer import MarkerProducer, MarkerRecord
from marq.receipt import Receipt

_GATHER_S = 0.003
"""How long ends are gathered before they are written."""
_REST_S = 0.1
"""How long it rests between two looks at what is open."""
_MOST = 20_000
"""Half messages that one record speaks of: a broker takes 1 MB by default."""
_SAMPLE_S = 0.05

T = TypeVar("T")
_Ended = tuple[KafkaHalf, "answers.Answer[None] | None"]


class Keeper:
    """A producer of markers about parked messages, and a thread; both begin with the first use."""

    def __init__(self, settings: Config, topic: str) -> None:
        self._settings = settings
        self._topic = topic
        self._clock = BrokerClock()
        self._sampled_at = 0.0
        self._open: dict[KafkaHalf, None] = {}
        self._ended: list[_Ended] = []
        self._wake = threading.Event()
        self._closing = False
        self._extend_at = 0.0
        self._waiting = answers.WaitingRoom()
        self._producer: MarkerProducer | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._taking = threading.Lock()
        """One takes ends at a time: the thread, or whoever flushes."""
        self.failure: QueueError | None = None
        """Why nothing is kept any more."""

    def now_ms(self) -> int:
        """What time it is by the log."""
        return self._clock.now_ms()

    # What is open.

    def keep(self, half: KafkaHalf) -> None:
        """Say from now on that its owner lives."""
        now = time.monotonic()
        half.until_s = now + half.terms.timeout_ms / 1_000
        half.extend_at_s = now + half.terms.half.check_after_ms / 4_000
        if now > self._sampled_at + _SAMPLE_S:
            self._sampled_at = now
            self._clock.sample(half.partition, half.at_ms)
        self._open[half] = None

    def let_go(self, half: KafkaHalf) -> None:
        self._open.pop(half, None)

    def end(self, half: KafkaHalf) -> Receipt[None]:
        """Write its end, and tell when that is in the log."""
        answer: answers.Answer[None] = answers.Answer(self._waiting)
        self._ended.append((half, answer))
        self._wake.set()
        return answer

    def end_soon(self, half: KafkaHalf) -> None:
        """Write its end: nobody waits for it."""
        self._ended.append((half, None))
        if not self._wake.is_set():
            self._wake.set()

    def append(self, partition: int, marker: Marker) -> Receipt[None]:
        """Write a marker, and tell when that is in the log."""
        answer: answers.Answer[None] = answers.Answer(self._waiting)

        def heard(taken: AppendTime | None) -> None:
            _fill(answer, taken)

        self.started().write(MarkerRecord(partition, codec.encode(marker), heard))
        return answer

    # The thread that says all this.

    def started(self) -> MarkerProducer:
        """The producer, and the thread at work."""
        if self._producer is None:
            with self._lock:
                if self._producer is None:
                    about = (self._settings, self._topic, self._clock, self._fail)
                    self._producer = MarkerProducer(*about)
                    self._thread = threads.start(self._run, "marq-halves", self._died)
                    lifetime.at_work()
        return self._producer

    def _run(self) -> None:
        while not self._closing:
            self._wake.wait(max(0.005, min(self._extend_at - time.monotonic(), _REST_S)))
            if self._wake.is_set():
                time.sleep(_GATHER_S)
                self._write_ends()
            if time.monotonic() >= self._extend_at:
                self._extend()

    def _write_ends(self) -> None:
        self._wake.clear()
        with self._taking:
            count = len(self._ended)
            ended, self._ended[:count] = self._ended[:count], []
        by_partition: dict[int, list[_Ended]] = {}
        for each in ended:
            by_partition.setdefault(each[0].partition, []).append(each)
        for partition, some in by_partition.items():
            for part in _parts(some):
                self._write_end(partition, part)

    def _write_end(self, partition: int, some: list[_Ended]) -> None:
        refs: tuple[ParkedRef, ...] = tuple(half.ref for half, _ in some)

        def heard(taken: AppendTime | None) -> None:
            for half, answer in some:
                self.let_go(half)
                if answer is not None:
                    _fill(answer, taken)

        self.started().write(MarkerRecord(partition, codec.encode(Progress(parked=refs)), heard))

    def _extend(self) -> None:
        """Where one is to be extended, one record for all that are open in its partition."""
        now = time.monotonic()
        alive: dict[int, list[KafkaHalf]] = {}
        due: set[int] = set()
        for half in list(self._open):
            if now > half.until_s:
                self.let_go(half)
                continue
            alive.setdefault(half.partition, []).append(half)
            if now >= half.extend_at_s:
                due.add(half.partition)
        for partition in due:
            for part in _parts(alive[partition]):
                self._write_extension(partition, part)
        nexts = (half.extend_at_s for some in alive.values() for half in some)
        self._extend_at = min((*nexts, now + _REST_S))

    def _write_extension(self, partition: int, some: list[KafkaHalf]) -> None:
        held = tuple(
            HeldParked(half.ref, Action.EXTEND, half.terms.half.check_after_ms) for half in some
        )

        def heard(taken: AppendTime | None) -> None:
            for half in some:
                if taken is not None and half.owned is not None:
                    after_ms = half.terms.half.check_after_ms
                    half.owned.extended(taken.earliest_ms, after_ms, taken.latest_ms)

        now = time.monotonic()
        for half in some:
            half.extend_at_s = now + half.terms.half.check_after_ms / 4_000
        value = codec.encode(Hold(parked=held))
        self.started().write(MarkerRecord(partition, value, heard, again=False))

    # Failing and closing.

    def _fail(self, error: QueueError) -> None:
        self.failure = self.failure or error
        self._waiting.break_off(error)

    def _died(self, error: BaseException) -> None:
        self._fail(QueueError(f"half messages are no longer kept, for a thread died of {error!r}"))

    def forked(self) -> None:
        """This is a child: what is open is its parent's."""
        self._open = {}
        self._waiting.forked()

    def flush(self, timeout_s: float | None) -> bool:
        """Write the ends that have gathered, and wait for the log."""
        if self._producer is None:
            return True
        self._write_ends()
        return self._producer.flush(timeout_s)

    def in_hands(self) -> bool:
        """Whether something is open that may still be decided here."""
        return bool(self._open)

    def close(self, timeout_s: float = 10.0) -> None:
        if self._producer is None or self._closing:
            return
        try:
            if not self.flush(timeout_s):
                raise NotConnected("closed, but the ends of half messages are not in the log")
        finally:
            self._closing = True
            self._wake.set()
            assert self._thread is not None
            self._thread.join()
            self._producer.close()
            with contextlib.suppress(Exception):
                self._waiting.break_off(
                    NotConnected("the broker was closed before the log took it")
                )


def _fill(answer: answers.Answer[None], taken: AppendTime | None) -> None:
    if taken is None:
        answer.fail(NotConnected("the log takes no record about half messages"))
    else:
        answer.fill(None)


def _parts(some: list[T]) -> Iterator[list[T]]:
    left = iter(some)
    while part := list(islice(left, _MOST)):
        yield part
