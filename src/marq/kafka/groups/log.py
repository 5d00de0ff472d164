"""The control log and the lease topic of a group, followed and written."""

from __future__ import annotations

import logging
import time
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from marq.errors import NotConnected, QueueError
from marq.groups import records
from marq.groups.names import GroupNames
from marq.groups.records import ControlRecord, HoldingRecord, LeaseBeat
from marq.groups.table import EMPTY, Table, fold
from marq.groups.watch import LeaseWatch
from marq.kafka.client import codes
from marq.kafka.client.making import Consumer, Producer
from marq.kafka.client.refusals import denied, patiently, refusal, unreachable
from marq.kafka.groups.clients import GroupClients

log = logging.getLogger("marq.groups")


def now_ms() -> int:
    """This process's own steady clock: leases are judged by nothing else."""
    return time.monotonic_ns() // 1_000_000


class GroupLog:
    """Follows both topics of a group. One thread uses it."""

    def __init__(self, cluster: GroupClients, names: GroupNames) -> None:
        self._cluster = cluster
        self._names = names
        self._reader: Consumer = cluster.tail()
        self._writer: Producer = cluster.plain()
        self.table: Table = EMPTY
        self.watch = LeaseWatch()
        self.skipped = 0
        """Records that nobody can make sense of."""
        self.gone = False
        """The topics were deleted."""
        self._topic_id: bytes | None = None
        self._life_ms = 0
        """When anyone last held a partition or beat, by the broker's clock."""
        self.silence_ms = 0
        """How long nobody held or beat before the last hold."""
        self._next: dict[str, int] = {}
        """By topic, the offset read next; None of them before both ends were asked for."""

    def follow(self, wait_s: float) -> bool:
        """Read what is there, waiting for the first; whether the table is another now."""
        before = self.table
        found = self._reader.consume(1, wait_s)
        while found:
            for message in found:
                self._take(message)
            found = self._reader.consume(1_000, 0)
        if self.table is not before:
            self.watch.follow(self.table, now_ms())
        return self.table is not before

    def _take(self, message: Any) -> None:
        error = message.error()
        if error is not None:
            if codes.is_end(error):
                # Past what no reader is given: where a transaction of someone else ended.
                self._next[message.topic()] = message.offset()
            elif codes.is_gone(error) or codes.is_off_the_log(error):  # created again, perhaps
                self._look_whether_gone()
            elif codes.is_unreadable(error):
                raise denied(f"READ on topic {message.topic()!r}", error.str())
            return
        self._next[message.topic()] = message.offset() + 1
        if message.topic() == self._names.control:
            self._take_control(message)
        elif lease := records.decode_lease(message.value()):
            self.watch.beat(lease, now_ms())
            self._life_ms = max(self._life_ms, message.timestamp()[1])
        elif message.value() is not None:
            self._skip(message)

    def _look_whether_gone(self) -> None:
        """A broker that has just come up may not know the topic yet: that is no reason to end."""
        try:
            found = self._cluster.admin.describe(self._names.control)
        except QueueError:
            return  # nobody answers: nothing is known
        self.gone |= found is None or found[0] != self._topic_id

    def _take_control(self, message: Any) -> None:
        record, at_ms = records.decode(message.value()), message.timestamp()[1]
        if isinstance(record, HoldingRecord):
            # The gap before it counts: whoever took over may find that offsets have expired.
            self.silence_ms = at_ms - self._life_ms if self._life_ms else 0
            self._life_ms = max(self._life_ms, at_ms)
        if record is None:
            self._skip(message)
        try:
            self.table = fold(self.table, message.offset(), record)
        except Exception:  # pure, so that everyone else who reads it skips it too
            self._skip(message)
            self.table = fold(self.table, message.offset(), None)

    def _skip(self, message: Any) -> None:
        self.skipped += 1
        about = {"topic": message.topic(), "offset": message.offset()}
        log.warning("a record that is none of marq's is skipped", extra=about)

    def catch_up(self) -> Table:
        """The table at the control log's end now; the lease topic is read to its end too."""
        if self._topic_id is None:
            found = self._cluster.admin.describe(self._names.control)
            self._topic_id = found[0] if found else None
        until = time.monotonic() + self._cluster.timeout_s
        ends = {}
        for topic in (self._names.control, self._names.leases):
            start, ends[topic] = self._span(topic)
            self._next.setdefault(topic, start)
        if not self._reader.assignment():
            self._reader.assign(
                [TopicPartition(topic, 0, start) for topic, start in self._next.items()]
            )
        while any(self._next[topic] < end for topic, end in ends.items()) and not self.gone:
            self.follow(0.1)
            if time.monotonic() > until:
                raise unreachable(self._cluster.servers)
        self.watch.caught_up(now_ms())
        return self.table

    def _span(self, topic: str) -> tuple[int, int]:
        """Start and high watermark. Waiting for the reader to say that it is at the end alone would
        take half a second, or for ever where beats come in."""
        place = TopicPartition(topic, 0)
        timeout_s = self._cluster.timeout_s
        try:
            start, end = patiently(
                lambda: self._reader.get_watermark_offsets(place, timeout=timeout_s), timeout_s
            )
        except KafkaException as error:
            raise refusal(error, self._cluster.servers, f"READ on topic {topic!r}") from None
        return int(start), int(end)

    def append(self, record: ControlRecord, timeout_s: float) -> int | None:
        """The offset the control log took it at; None if that is unknown."""
        where: list[int] = []
        refused: list[KafkaError] = []

        def report(error: KafkaError | None, message: Any) -> None:
            if error is None:
                where.append(message.offset())
            elif codes.is_denied(error):
                refused.append(error)

        value = records.encode(record)
        try:
            self._writer.produce(
                self._names.control, value, _key(record), partition=0, on_delivery=report
            )
            self._writer.flush(timeout_s)
        except (BufferError, KafkaException):
            return None
        if refused:
            raise denied(f"WRITE on topic {self._names.control!r}", refused[0].str())
        return where[0] if where else None

    def beat(self, lease: LeaseBeat) -> None:
        """Write a lease; nobody waits for it."""
        try:
            self._writer.produce(
                self._names.leases, records.encode(lease), lease.member, partition=0
            )
            self._writer.poll(0)
        except (BufferError, KafkaException):
            return  # the next one will tell

    def change(self, record: ControlRecord) -> Table:
        """Append a record and read up to it."""
        offset = self.append(record, self._cluster.timeout_s)
        if offset is None:
            raise NotConnected("whether the group was changed is not known: look, and try again")
        until = time.monotonic() + self._cluster.timeout_s
        while self.table.next <= offset and not self.gone:
            self.follow(0.1)
            if time.monotonic() > until:
                raise unreachable(self._cluster.servers)
        return self.table

    def close(self) -> None:
        self._writer.flush(2)
        self._reader.close()


def _key(record: ControlRecord) -> str:
    return getattr(record, "member", "config")
