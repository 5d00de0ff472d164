"""The bytes under every codec: unsigned varints, short texts, index sets.

A reader runs out rather than guess: every count stands before what it counts and `end` checks that
nothing is left, so no prefix of an encoding is an encoding.
"""

from __future__ import annotations

from collections.abc import Iterable

from marq.core.markers import bits
from marq.errors import MalformedMarker

MAX_INDEX = 1 << 16
"""Messages a claim may hold; bounds what a hostile record can make a reader allocate."""

LONGEST_MS = 1 << 48
"""The longest duration a record may hold, some 9,000 years: a time plus one still fits a number."""

LATEST_MS = 1 << 49
"""The latest time a record may name: now, and the longest duration after it."""

MOST = (1 << 31) - 1
"""The most attempts and copies, and the highest partition: nobody counts further, and Kafka takes
no higher number for a partition."""

_LAST_SHIFT = 63  # of a tenth byte: a number has 64 bits


class WireWriter:
    """Builds one record."""

    __slots__ = ("_out",)

    def __init__(self, head: bytes = b"") -> None:
        self._out = bytearray(head)

    def number(self, value: int) -> None:
        if value < 0 or value >> 64:
            raise ValueError(f"only numbers from 0 to 64 bits can be written, not {value}")
        out = self._out
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)

    def numbers(self, values: Iterable[int]) -> None:
        for value in values:
            self.number(value)

    def durations(self, *values: int) -> None:
        for value in values:
            if value > LONGEST_MS:
                raise ValueError(f"no duration is longer than {LONGEST_MS} ms, not {value}")
            self.number(value)

    def raw(self, data: bytes) -> None:
        self._out += data

    def blob(self, data: bytes) -> None:
        self.number(len(data))
        self._out += data

    def text(self, value: str) -> None:
        self.blob(value.encode())

    def indexes(self, mask: int) -> None:
        """An index set as runs or as a bitmap, whichever is shorter; the low bit tells which."""
        if mask.bit_length() > MAX_INDEX:
            raise ValueError(f"no index is above {MAX_INDEX}")
        size = (mask.bit_length() + 7) // 8
        runs = (mask & ~(mask << 1)).bit_count()
        # A run takes two bytes at least, and spelling hundreds of them out costs 100 us.
        as_runs = _runs(mask) if 2 * runs <= size else None
        if as_runs is not None and len(as_runs) <= size:
            self.number(runs << 1)
            self.raw(as_runs)
        else:
            self.number(size << 1 | 1)
            self.raw(mask.to_bytes(size, "little"))

    def bytes(self) -> bytes:
        return bytes(self._out)


def _runs(mask: int) -> bytes:
    """The runs of a set, each as its distance from the one before and its length."""
    out = WireWriter()
    position = 0
    for start, count in bits.runs(mask):
        out.numbers((start - position, count))
        position = start + count
    return out.bytes()


class WireReader:
    """Takes one record apart; `MalformedMarker` where it breaks off or contradicts itself."""

    __slots__ = ("_at", "_data", "_room")

    def __init__(self, data: bytes, at: int = 0, room: int = 1 << 62) -> None:
        self._data = data
        self._at = at
        self._room = room
        """How many indexes it may still spell out: 7 bytes can name a run of 65,536."""

    def number(self) -> int:
        data, at = self._data, self._at
        try:
            byte = data[at]
            value = byte & 0x7F
            shift = 7
            while byte & 0x80 and shift <= _LAST_SHIFT:
                at += 1
                byte = data[at]
                value |= (byte & 0x7F) << shift
                shift += 7
        except IndexError:
            raise MalformedMarker("a number breaks off") from None
        if byte & 0x80 or value >> 64:
            raise MalformedMarker("a number is longer than 64 bits")
        self._at = at + 1
        return value

    def most(self, limit: int) -> int:
        """A number up to this one."""
        value = self.number()
        if value > limit:
            raise MalformedMarker(f"a number is {value}, more than {limit}")
        return value

    def duration(self) -> int:
        value = self.number()
        if value > LONGEST_MS:
            raise MalformedMarker(f"a duration is longer than {LONGEST_MS} ms")
        return value

    def count(self) -> int:
        """A number of things that follow, each at least a byte long."""
        value = self.number()
        if value > len(self._data) - self._at:
            raise MalformedMarker("more is announced than follows")
        return value

    def raw(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise MalformedMarker("the record breaks off")
        found = self._data[self._at : end]
        self._at = end
        return found

    def blob(self) -> bytes:
        return self.raw(self.count())

    def text(self) -> str:
        try:
            return self.blob().decode()
        except UnicodeDecodeError:
            raise MalformedMarker("a text is not UTF-8") from None

    def indexes(self) -> int:
        tag = self.number()
        return self._bitmap(tag >> 1) if tag & 1 else self._runs(tag >> 1)

    def _bitmap(self, size: int) -> int:
        mask = int.from_bytes(self.raw(size), "little")
        if mask.bit_length() > MAX_INDEX:
            raise MalformedMarker(f"an index is above {MAX_INDEX}")
        return mask

    def _runs(self, count: int) -> int:
        mask = position = 0
        for _ in range(count):
            start = position + self.number()
            length = self.number()
            position = start + length
            # Checked before the shift: 2**60 ones would be built otherwise.
            if not length or position > MAX_INDEX:
                raise MalformedMarker("a run of indexes is empty or too long")
            mask |= bits.span(start, length)
        self._room -= position
        if self._room < 0:
            raise MalformedMarker("the record names more messages than any worker has")
        return mask

    def at_end(self) -> bool:
        return self._at == len(self._data)

    def end(self) -> None:
        if not self.at_end():
            raise MalformedMarker("something follows the record's end")
