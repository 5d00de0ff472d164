"""What a hostile producer writes, seeded: a kind of record for every topic there is."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from marq.core import names
from tests.hostile import wire
from tests.hostile.forging import NUMBERS, Forger, marq_header, texts
from tests.hostile.wire import Raw

NAME = b"odd-name"
BOMBS = (
    b"[" * 100_000,
    b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    b'"\\ud800"',
    b"1" * 5_000,
    b"1e999999",
    b"\xff\xfe\x00",
    b'{"a": NaN}',
    b"",
)
"""Payloads that are no JSON, or too much of it."""
TYPES = (b"application/json", b"text/plain; charset=utf-8", b"application/x-nothing", b"\xff", None)


_VALUES: tuple[Any, ...] = (-1, *NUMBERS[-6:], 1.5, "x", [], None)


@dataclass(frozen=True)
class Odd:
    """A record to be written, and what it is."""

    topic: str
    record: Raw
    what: str
    waits: bool = False
    """By what it says of itself it may come late, or never."""
    name: bytes = b""
    """In a header of its own, so that its copies and dead letters are known."""


class Hostile:
    """All there is to be written about a queue; the same seed, the same records."""

    def __init__(self, seed: int, queue: str, victim: str, victim_id: bytes) -> None:
        self._chance = Random(seed)
        self._queue, self._victim = queue, victim
        self._numbers = itertools.count()
        self._forger = Forger(self._chance, victim, victim_id)
        self._kinds: tuple[Callable[[], tuple[Raw, str, bool]], ...] = (
            self._forged,
            self._forged,
            self._forged,
            self._names,
            self._payload,
            self._large,
            self._key,
            self._letter,
            self._many,
            self._time,
        )

    def messages(self, number: int, topic: str = "") -> Iterator[Odd]:
        """Records for a topic of messages, of each kind in turn."""
        for kind in itertools.islice(itertools.cycle(self._kinds), number):
            record, what, waits = kind()
            name = b"%d" % next(self._numbers)
            named = replace(record, headers=(*record.headers, (NAME, name)))
            yield Odd(topic or self._queue, named, what, waits, name)

    def codec(self) -> int:
        return self._chance.choice(wire.CODECS)

    def size(self) -> int:
        """How many records a batch has."""
        return self._chance.choice((1, 1, 2, 5))

    def holds(self, number: int) -> Iterator[Odd]:
        """Records for the hold logs: markers, and what claims to be a parked message."""
        for _ in range(number):
            if self._chance.random() < 0.3:
                record, what, _ = self._parked()
                yield Odd(names.DELAYED, record, what)
            else:
                data, what = self._forger.marker()
                topic = self._chance.choice((names.MARKERS, names.MARKERS, names.DELAYED))
                key = self._chance.choice((None, None, b"k"))
                yield Odd(topic, Raw(data, key), what)
        for topic in (names.MARKERS, names.DELAYED):
            yield Odd(topic, Raw(None), "a null")
            yield Odd(topic, Raw(None, b"k", ((b"gr\xf6\xdfe", None),)), "a null with a header")

    def entries(self, number: int) -> Iterator[Odd]:
        """Records for the catalog: nothing that wins over a good queue's definition."""
        for value, what in itertools.islice(itertools.cycle(self._definitions()), number):
            yield Odd(names.CATALOG, Raw(value), f"entry: {what}")

    def stats(self) -> Iterator[Odd]:
        """Records for the stats topic."""
        values = (b"", b"{}", b"[" * 50_000, b'{"at_ms": "x"}', b'{"at_ms": -1e400}', None)
        # None without a key: a compacted topic takes no such record.
        for key, value in itertools.product((b"", b"\xff", b"nowhere", b"a/b"), values):
            yield Odd(names.STATS, Raw(value, key), f"stats {key!r}: {(value or b'')[:9]!r}")

    def controls(self, control: str, leases: str) -> Iterator[Odd]:
        """Records for the logs of an ordered group: none that changes it by its rules."""
        config: dict[str, Any] = {
            "record": "config",
            "id": "x",
            "version": 99,
            "config": {"max_members": -1},
        }
        hold: dict[str, Any]
        hold = {"record": "hold", "claim": "c", "n": -1, "member": "m1", "prev": "x",
                "partitions": [1 << 40, -1], "version": 1 << 62}  # fmt: skip
        step = {"record": "stepdown", "id": "i", "member": "nobody", "claim": "c" * 100_000}
        lease = {"record": "lease", "member": "x" * 1_000, "claim": "\x1b[2J", "instance": ""}
        for log, said in itertools.product((control, leases), (config, hold, step, lease)):
            value = json.dumps(said).encode()
            yield Odd(log, Raw(value), f"{said['record']} in {log}")
        for log, bomb in itertools.product((control, leases), (*BOMBS, None)):
            yield Odd(log, Raw(bomb, None, ((b"\xff", None),)), f"noise in {log}")

    # Kinds of messages.

    def _forged(self) -> tuple[Raw, str, bool]:
        data, what, waits = marq_header(self._chance, self._queue)
        more = self._chance.choice(((), ((b"marq", b"twice"),), ((b"x", b"y"),)))
        return Raw(b"odd", None, ((b"marq", data), *more)), what, waits

    def _parked(self) -> tuple[Raw, str, bool]:
        data, what, waits = marq_header(self._chance, self._queue)
        return Raw(b"odd", None, ((b"marq", data),)), f"parked: {what}", waits

    def _names(self) -> tuple[Raw, str, bool]:
        odd = (b"gr\xf6\xdfe", b"", b"\0", b"\xff" * 300, b"n" * 100_000, b"\xed\xa0\x80")
        name = self._chance.choice((*odd, b"MARQ", b"marq"))
        value = self._chance.choice((None, b"", b"\xff", b"v"))
        return Raw(b"odd", None, ((name, value), (b"x", b"y"))), f"a name {name[:9]!r}", False

    def _payload(self) -> tuple[Raw, str, bool]:
        bomb, kind = self._chance.choice(BOMBS), self._chance.choice(TYPES)
        headers = ((b"content-type", kind),)
        return Raw(bomb, None, headers), f"payload {bomb[:9]!r} as {kind!r}", False

    def _large(self) -> tuple[Raw, str, bool]:
        size = self._chance.choice((0, 100_000, 900_000, 1_000_000))
        return Raw(b"x" * size or None), f"a value of {size} bytes", False

    def _key(self) -> tuple[Raw, str, bool]:
        key = self._chance.choice((b"", b"\xff\0", b"k" * 200_000, b"null"))
        value = self._chance.choice((None, b"", b"odd"))
        return Raw(value, key), f"key {key[:9]!r}", False

    def _letter(self) -> tuple[Raw, str, bool]:
        """A message that says it was a dead letter."""
        pairs = (
            (b"__dlq.errors.delivery.count", b"9" * 5_000),
            (b"__dlq.errors.delivery.count", "\N{SUPERSCRIPT TWO}".encode()),
            (b"__dlq.errors.message", b"\xff\x1b[2J"),
            (b"__dlq.errors.offset", b"-1"),
            (b"__dlq.errors.topic", texts(self._chance, self._queue)),
            (b"__dlq.errors.partition", None),
        )
        chosen = tuple(self._chance.sample(pairs, self._chance.randint(1, len(pairs))))
        return Raw(b"odd", None, chosen), "forged errors", False

    def _many(self) -> tuple[Raw, str, bool]:
        number = self._chance.choice((100, 5_000))
        return Raw(b"odd", None, ((b"h", b"v"),) * number), f"{number} headers", False

    def _time(self) -> tuple[Raw, str, bool]:
        at_ms = self._chance.choice((-1, 0, 1, 1 << 40, 1 << 53))
        return Raw(b"odd", None, (), at_ms), f"sent at {at_ms}", False

    # The catalog.

    def _definitions(self) -> Iterator[tuple[bytes | None, str]]:
        yield None, "a tombstone"
        yield b"", "nothing"
        yield b"[" * 100_000, "deep"
        yield b'{"kind":"queue","name":"' + b"\xff" + b'","version":1}', "not UTF-8"
        yield b'{"kind":"queue","name":"\\ud800","version":1,"definition":{}}', "a surrogate"
        for name in ("", "nowhere", "n" * 300, "dlq.x", "marq.markers", "a/b", "\x1b[2J"):
            for version in (0, 1, 1 << 62, -1):
                yield _entry("queue", name, version, {}), f"{name[:9]!r} version {version}"
        for field in ("lease_ms", "max_attempts", "partitions", "retention_ms", "ttl_ms"):
            for value in _VALUES:
                yield _entry("queue", f"odd-{field}", 1, {field: value}), f"{field}={value}"
        yield _entry("queue", "odd-backoff", 1, {"backoff_ms": [9, -1]}), "backoff"
        yield _entry("queue", "odd-purged", 1, {"purged": {"x": -1, "::": 1 << 62}}), "purged"
        yield _entry("queue", "odd-newer", 1, {"colour": "red"}), "newer"
        yield _entry("what", "x", 1, {"a": [[[]]]}), "a kind nobody knows"
        yield _entry("tracker", "tracker", 1 << 40, None), "an owner far ahead"
        yield _entry("snapshot", "catalog", 1 << 40, {"entries": "x"}), "no snapshot"


def _entry(kind: str, name: str, version: int, definition: object) -> bytes:
    return json.dumps(
        {"kind": kind, "name": name, "version": version, "definition": definition}
    ).encode()
