"""What the demo's workers have begun and handled: lines of two files, which the demo reads."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import marq

BEGUN = Path("begun")
"""Long orders whose handler runs, and of which the log knows that."""
HANDLED = Path("handled")
ANSWERS = Path("answers")
"""Long orders wait for this file."""
POISON = b"poison"
LONG = b"long-"


@dataclass(frozen=True, slots=True)
class Line:
    """One order that a handler had."""

    order: str
    attempt: int
    copies: int
    """How often it had come back before, begun or only fetched ahead."""
    at: float
    pid: int

    def __str__(self) -> str:
        return f"{self.order} {self.attempt} {self.copies} {self.at} {self.pid}\n"

    @classmethod
    def read(cls, text: str) -> Line:
        order, attempt, copies, at, pid = text.split()
        return cls(order, int(attempt), int(copies), float(at), int(pid))


class Notebook:
    """A worker's end of a file."""

    def __init__(self, file: Path) -> None:
        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, delivery: marq.Delivery[bytes]) -> None:
        """One write a line: lines of several processes do not mix."""
        copies = delivery._stored.meta().copies
        order = delivery.payload.decode()
        line = Line(order, delivery.attempt, copies, time.time(), os.getpid())
        os.write(self._file, str(line).encode())


@dataclass(slots=True)
class LinesSoFar:
    """All lines of a file so far."""

    file: Path
    lines: list[Line] = field(default_factory=list)
    orders: set[str] = field(default_factory=set)
    _read: int = 0

    def look(self) -> None:
        """Read what is new."""
        if not self.file.exists():
            return
        with self.file.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        found = [Line.read(line) for line in whole.decode().splitlines()]
        self.lines += found
        self.orders.update(line.order for line in found)

    def came_back(self) -> list[Line]:
        """What was delivered by a copy, the tracker's."""
        return [line for line in self.lines if line.copies]
