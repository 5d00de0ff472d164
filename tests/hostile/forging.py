"""Headers and markers as nobody who means well writes them: every field at its edges, cut, grown,
of other versions. A marker or a header of a newer version is left out: it stops a tracker with a
sentence, by design."""

from __future__ import annotations

from random import Random

from marq.core.markers import codec
from marq.core.markers.wire import WireWriter
from marq.core.messages import header

NUMBERS = (0, 1, 2, 127, 128, 1 << 16, (1 << 31) - 1, 1 << 31, 1 << 48, (1 << 48) + 1, 1 << 62,
           (1 << 63) - 1, 1 << 63, (1 << 64) - 1)  # fmt: skip
FIELDS = {"attempt": 1, "copies": 2, "delay": 3, "due": 4, "ahead": 5, "ttl": 6, "expires": 7,
          "sent": 8, "suspect": 9, "expired": 10, "epoch": 11, "priority": 12, "?": 40}  # fmt: skip
TEXTS = {"id": 1, "queue": 2, "origin": 3, "key": 5, "half": 6, "entry": 7, "?": 50}
WAITING = ("delay", "due", "ttl", "expires", "ahead")
"""Fields that may keep a message from being delivered, by what they mean."""


def texts(chance: Random, queue: str) -> bytes:
    """A text for a name, an id or an address."""
    return chance.choice(
        (
            b"",
            b"x",
            b"x" * 100_000,
            b"gr\xf6\xdfe",
            b"\xed\xa0\x80",
            b"\0\x1b[2J\r\n\t",
            "\u202e\U0001f4a9".encode(),
            b"q:0:zzz",
            b":::",
            f"{queue}:0:{1 << 64}".encode(),
            f"{queue}:0:{'9' * 5_000}".encode(),
            f"{queue}:0:-1".encode(),
            f"{queue}:0:\N{SUPERSCRIPT TWO}".encode(),
            queue.encode(),
            f"dlq.{queue}".encode(),
            f"{queue}.group.g".encode(),
            b"marq.markers",
            b"marq.catalog",
            b"__consumer_offsets",
            b"nowhere",
            b"a/../b",
            b"n" * 300,
        )
    )


def marq_header(chance: Random, queue: str) -> tuple[bytes, str, bool]:
    """A forged header, what it says, and whether it may keep its message waiting."""
    out = WireWriter(bytes((header.VERSION,)))
    said, waits = [], False
    for _ in range(chance.randint(0, 4)):
        match chance.randint(0, 9):
            case 0:
                out.number(header._HISTORY << 1 | 1)
                out.blob(_history(chance))
                said.append("history")
            case 1 | 2 | 3:
                name = chance.choice(list(TEXTS))
                out.number(TEXTS[name] << 1 | 1)
                out.blob(texts(chance, queue))
                said.append(name)
            case _:
                name, value = chance.choice(list(FIELDS)), chance.choice(NUMBERS)
                out.numbers((FIELDS[name] << 1, value))
                said.append(f"{name}={value:#x}")
                waits |= name in WAITING
    data, how = spoilt(chance, out.bytes())
    return data, f"header {' '.join(said)} {how}", waits or bool(how)


def _history(chance: Random) -> bytes:
    out = WireWriter()
    count = chance.choice((0, 1, 3, 11, 1_000, 1 << 62))
    out.number(count)
    for _ in range(min(count, 1_000)):
        out.numbers((chance.choice(NUMBERS), chance.choice(NUMBERS)))
        out.blob(chance.choice((b"w", b"\xff", b"w" * 50)))
        out.blob(chance.choice((b"why", b"\xed\xa0\x80", b"y" * 400)))
    return out.bytes()


def spoilt(chance: Random, data: bytes, head: int = 1) -> tuple[bytes, str]:
    """The bytes as they are, mostly; or cut, grown or changed behind their head."""
    match chance.randint(0, 9):
        case 0:
            return data[: chance.randint(0, len(data))], "cut"
        case 1:
            return data + chance.randbytes(chance.choice((1, 2, 40))), "grown"
        case 2 if len(data) > head:
            changed = bytearray(data)
            for _ in range(chance.randint(1, 3)):
                changed[chance.randrange(head, len(data))] = chance.randrange(256)
            return bytes(changed), "changed"
        case 3:
            return data + b"\x80" * 11, "an endless number"
    return data, ""


class Forger:
    """Markers about sources of a queue that is for this alone, or of none.

    Who may write to the hold logs can end anyone's messages, by naming their topic: so no marker
    here names the topic of a good queue.
    """

    def __init__(self, chance: Random, victim: str, victim_id: bytes) -> None:
        self._chance = chance
        self._victim = victim
        self._ids = (victim_id, victim_id, bytes(16), chance.randbytes(16))
        self._claims = [(chance.getrandbits(64), chance.choice(NUMBERS)) for _ in range(6)]

    def marker(self) -> tuple[bytes, str]:
        """A record for a hold log, and what it is."""
        match self._chance.randint(0, 12):
            case 0:
                return self._chance.randbytes(self._chance.choice((0, 1, 2, 3, 100))), "noise"
            case 1:
                head = bytes((codec.MAGIC, codec.VERSION, self._chance.choice((0, 9, 77, 255))))
                return head + self._chance.randbytes(9), "a kind nobody knows"
            case 2:
                head = bytes((codec.MAGIC, 0, self._chance.randint(0, 9)))
                return head + self._chance.randbytes(9), "a version before the first"
        kind, write = self._chance.choice(
            (
                (1, self._claim),
                (1, self._claim),
                (1, self._claim),
                (2, self._progress),
                (3, self._beat),
                (4, self._hold),
                (4, self._hold),
                (5, self._restate),
                (7, self._forget),
            )
        )
        out = WireWriter(bytes((codec.MAGIC, codec.VERSION, kind)))
        write(out)
        data, how = spoilt(self._chance, out.bytes(), 3)
        return data, f"marker of kind {kind} {how}"

    def _number(self) -> int:
        return self._chance.choice(NUMBERS)

    def _small(self) -> int:
        return self._chance.choice((0, 1, 2, 5))

    def _duration(self) -> int:
        return self._chance.choice((0, 0, 1, 500, 1 << 48, self._number()))

    def _id(self, out: WireWriter) -> None:
        worker, sequence = self._chance.choice(self._claims)
        out.raw(worker.to_bytes(8, "little"))
        out.number(sequence)

    def _source(self, out: WireWriter) -> None:
        out.raw(self._chance.choice(self._ids))
        out.number(self._chance.choice((0, 0, 0, 1, 7, 1 << 31, 1 << 40, (1 << 64) - 1)))
        out.blob(self._chance.choice((self._victim.encode(), texts(self._chance, self._victim))))
        out.blob(self._chance.choice((b"", b"", texts(self._chance, self._victim))))
        out.number(self._chance.choice((0, 0, 0, self._number())))

    def _runs(self, out: WireWriter) -> None:
        number = self._chance.choice((0, 1, 1, 1, 2, 1 << 40))
        out.number(number)
        for _ in range(min(number, 3)):
            out.numbers((self._number(), self._chance.choice((1, 1, 2, 100, 1 << 16, 1 << 62))))

    def _indexes(self, out: WireWriter) -> None:
        if self._chance.random() < 0.1:
            out.numbers((self._number(), self._number()))
        else:
            out.indexes(self._chance.choice((0, 1, 3, (1 << 100) - 1, 1 << 65_535)))

    def _claim(self, out: WireWriter) -> None:
        self._id(out)
        self._source(out)
        out.number(self._duration())
        out.number(self._chance.choice((0, 0, self._number())))
        self._runs(out)

    def _progress(self, out: WireWriter) -> None:
        steps = self._small()
        out.number(1)
        out.raw(self._chance.choice(self._claims)[0].to_bytes(8, "little"))
        out.number(steps)
        for _ in range(steps):
            out.number(self._chance.choice(self._claims)[1])
            self._indexes(out)
            begun = self._small()
            out.number(begun)
            for _ in range(begun):
                self._indexes(out)
                out.numbers((self._duration(), self._number(), self._duration()))
        self._refs(out)

    def _refs(self, out: WireWriter) -> None:
        refs = self._small()
        out.number(refs)
        for _ in range(refs):
            out.numbers((self._number(), self._number()))

    def _beat(self, out: WireWriter) -> None:
        out.raw(self._chance.choice(self._claims)[0].to_bytes(8, "little"))
        self._runs(out)

    def _hold(self, out: WireWriter) -> None:
        held = self._small()
        out.numbers((self._chance.choice((0, 1, 1, 2)), held))
        for _ in range(held):
            self._id(out)
            self._indexes(out)
            self._terms(out)
        parked = self._small()
        out.number(parked)
        for _ in range(parked):
            out.numbers((self._number(), self._number()))
            self._terms(out)

    def _terms(self, out: WireWriter) -> None:
        out.number(self._chance.choice((1, 2, 3, 4, 5, 6, 9, 200)))
        out.numbers((self._duration(), self._duration()))
        out.blob(self._chance.choice((b"", b"no", b"\xff", b"why" * 30_000)))

    def _restate(self, out: WireWriter) -> None:
        out.number(self._number())
        claims = self._small()
        out.number(claims)
        for _ in range(claims):
            self._id(out)
            self._source(out)
            self._runs(out)
            out.number(1)
            self._indexes(out)
            out.numbers((self._number(), self._duration(), self._duration(), self._number()))
            out.number(self._chance.choice((0, 1, 2, 3, 4, 7, 32, 34)))
            out.blob(b"why")
            out.numbers((1, self._number(), self._number(), 0))
        self._forget(out)

    def _forget(self, out: WireWriter) -> None:
        sources = self._small()
        out.number(sources)
        for _ in range(sources):
            self._source(out)
            self._runs(out)
