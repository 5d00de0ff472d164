"""A hostile producer at work, beside one that means well."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.hostile.oddities import Hostile, Odd
from tests.hostile.wire import Raw, Refused, Socket

Place = tuple[str, int, int]
VOID = b"void"
"""A payload that a purge voids."""
_FITS = frozenset(
    {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP}
)
"""What a broker may say to an odd record."""


class Attack:
    """Writes odd records to the topics of a cluster; a context manager."""

    def __init__(self, servers: str, seed: int) -> None:
        self._servers = servers
        self._chance = Random(seed)
        self._socket = Socket(servers)
        self.written: dict[Place, Odd] = {}
        """By where they lie."""
        self.refused = 0

    def write(self, odds: Iterable[Odd], partitions: int, hostile: Hostile) -> list[Place]:
        """Write them in batches of some, each compressed in some way; where they lie."""
        places: list[Place] = []
        for topic, each in itertools.groupby(odds, key=lambda odd: odd.topic):
            rest = list(each)
            while rest:
                taken, rest = rest[: (size := hostile.size())], rest[size:]
                places += self._batch(topic, partitions, taken, hostile.codec())
        return places

    def _batch(self, topic: str, partitions: int, odds: list[Odd], codec: int) -> Iterator[Place]:
        partition = self._chance.randrange(partitions)
        try:
            offsets = self._socket.produce(topic, partition, [odd.record for odd in odds], codec)
        except Refused as refused:
            assert refused.code in _FITS, f"{refused}: {[odd.what for odd in odds]}"
            if len(odds) == 1:
                self.refused += 1
                return
            for odd in odds:
                yield from self._batch(topic, partitions, [odd], codec)
            return
        for offset, odd in zip(offsets, odds, strict=True):
            self.written[topic, partition, offset] = odd
            yield topic, partition, offset

    def transactions(self, topic: str, good: list[bytes], seed: str) -> None:
        """Good messages in a transaction that is committed, and bad ones in one that is not."""
        settings = {"bootstrap.servers": self._servers, "transactional.id": f"hostile-{seed}"}
        producer = Producer(settings)
        producer.init_transactions(30)
        for payloads, ends in (
            ([b"aborted"] * 3, producer.abort_transaction),
            (good, producer.commit_transaction),
            ([b"aborted"], producer.abort_transaction),
        ):
            producer.begin_transaction()
            for payload in payloads:
                producer.produce(topic, payload)
            producer.flush(30)
            ends(30)

    def again(self, topic: str, partitions: int, limit: int = 50) -> int:
        """Write once more what others wrote to the topic last, byte by byte; how many. But for what
        was voided: written anew, it is a message."""
        copies = list(itertools.islice(self._last(topic, partitions, limit), limit))
        copies = [each for each in copies if each[1].value != VOID]
        for partition, record in copies:
            self._socket.produce(topic, partition, [record])
        return len(copies)

    def _last(self, topic: str, partitions: int, limit: int) -> Iterator[tuple[int, Raw]]:
        own = {"group.id": "hostile", "enable.partition.eof": True, "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": self._servers, **own})
        try:
            left = set()
            for number in range(partitions):
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), 30)
                if low < high:
                    left.add(TopicPartition(topic, number, max(low, high - limit)))
            consumer.assign(list(left))
            ends = len(left)
            while ends and (polled := consumer.poll(30)) is not None:
                message: Any = polled
                if message.error() is not None:
                    ends -= 1
                elif (topic, message.partition(), message.offset()) not in self.written:
                    yield message.partition(), _raw(message)
        finally:
            consumer.close()

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Attack:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _raw(message: Any) -> Raw:
    headers = tuple((name.encode(), value) for name, value in message.headers() or ())
    return Raw(message.value(), message.key(), headers)
