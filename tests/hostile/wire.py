"""Records as bytes and a produce request over a socket: what no well-behaved client would send.

librdkafka takes names of headers only as text, stamps its own times and batches as it likes. Here
every byte of a record is the test's. Only what a plain broker needs: no TLS, one broker that leads
all partitions, batches of one producer without an id.
"""

from __future__ import annotations

import gzip
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from struct import pack, unpack_from
from typing import Self

import pyarrow as pa

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)

_PRODUCE, _VERSION = 0, 7
_PATIENCE_S = 60.0
_LZ4_HEAD = bytes.fromhex("04224d18604082")
"""Magic, independent blocks of 64 kB at most, and the head's checksum."""
_LZ4_BLOCK = 1 << 16


@dataclass(frozen=True)
class Raw:
    """A record, all of it bytes."""

    value: bytes | None = None
    key: bytes | None = None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    at_ms: int = 0
    """What its producer says the time is."""


class Refused(Exception):
    """The broker did not take a batch."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the broker answers error {code}")
        self.code = code


class Socket:
    """A connection that produces; a context manager."""

    def __init__(self, server: str) -> None:
        host, port = server.split(",")[0].rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), _PATIENCE_S)
        self._answers = self._socket.makefile("rb")
        self._asked = 0

    def produce(
        self, topic: str, partition: int, records: Sequence[Raw], codec: int = NONE
    ) -> list[int]:
        """Write these as one batch; their offsets, once all replicas have it."""
        found = batch(records, codec)
        body = pack(">hhi", -1, -1, 30_000) + pack(">i", 1) + _string(topic)
        body += pack(">ii", 1, partition) + pack(">i", len(found)) + found
        first = self._first_offset(self._ask(body), len(topic.encode()))
        return list(range(first, first + len(records)))

    def _ask(self, body: bytes) -> bytes:
        self._asked += 1
        head = pack(">hhi", _PRODUCE, _VERSION, self._asked) + _string("hostile")
        self._socket.sendall(pack(">i", len(head) + len(body)) + head + body)
        (size,) = unpack_from(">i", self._answers.read(4))
        return self._answers.read(size)

    @staticmethod
    def _first_offset(answer: bytes, name_bytes: int) -> int:
        # correlation, one topic, its name, one partition and its number
        error, offset = unpack_from(">hq", answer, 4 + 4 + 2 + name_bytes + 4 + 4)
        if error:
            raise Refused(error)
        assert isinstance(offset, int)
        return offset

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def batch(records: Sequence[Raw], codec: int = NONE) -> bytes:
    """A record batch of format 2."""
    base = records[0].at_ms
    body = _compressed(b"".join(_record(each, n, base) for n, each in enumerate(records)), codec)
    times = [each.at_ms for each in records]
    checked = pack(">hiqq", codec, len(records) - 1, base, max(times))
    checked += pack(">qhii", -1, -1, -1, len(records)) + body
    head = pack(">ibI", -1, 2, crc32c(checked))
    return pack(">qi", 0, len(head) + len(checked)) + head + checked


def _record(record: Raw, number: int, base_ms: int) -> bytes:
    body = b"\0" + varint(record.at_ms - base_ms) + varint(number)
    body += _bytes(record.key) + _bytes(record.value) + varint(len(record.headers))
    for name, value in record.headers:
        body += _bytes(name) + _bytes(value)
    return varint(len(body)) + body


def _bytes(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def _string(text: str) -> bytes:
    return pack(">h", len(text.encode())) + text.encode()


def varint(value: int) -> bytes:
    """Kafka's signed number: zigzag, seven bits a byte."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _compressed(data: bytes, codec: int) -> bytes:
    match codec:
        case 0:
            return data
        case 1:
            return gzip.compress(data, 1)
        case 3:
            return _lz4(data)
        case _:
            name = {SNAPPY: "snappy", ZSTD: "zstd"}[codec]
            return bytes(pa.Codec(name).compress(data, asbytes=True))


def _lz4(data: bytes) -> bytes:
    """A frame of blocks as they are: Arrow's depend on each other, which Kafka refuses."""
    out = bytearray(_LZ4_HEAD)
    for at in range(0, len(data), _LZ4_BLOCK):
        block = data[at : at + _LZ4_BLOCK]
        out += pack("<I", len(block) | 1 << 31) + block
    return bytes(out + pack("<I", 0))


def _table() -> Iterable[int]:
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        yield byte


_CRC32C = tuple(_table())


def crc32c(data: bytes) -> int:
    """Castagnoli's checksum, which no module of Python's has."""
    crc, table = 0xFFFFFFFF, _CRC32C
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF
