"""What the demo's workers have handled: each writes lines to one file, the demo reads them."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import marq

FILE = Path("handled")
POISON = b"poison"


@dataclass(frozen=True, slots=True)
class Line:
    """One order that a handler was done with."""

    order: str
    attempt: int
    copies: int
    """How often it had come back before, begun or only fetched ahead."""
    at: float

    def __str__(self) -> str:
        return f"{self.order} {self.attempt} {self.copies} {self.at}\n"

    @classmethod
    def read(cls, text: str) -> Line:
        order, attempt, copies, at = text.split()
        return cls(order, int(attempt), int(copies), float(at))


class Notebook:
    """A worker's end of the file."""

    def __init__(self) -> None:
        self._file = os.open(FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, delivery: marq.Delivery[bytes]) -> None:
        """One write a line: lines of several processes do not mix."""
        copies = delivery._stored.meta().copies
        line = Line(delivery.payload.decode(), delivery.attempt, copies, time.time())
        os.write(self._file, str(line).encode())


@dataclass(slots=True)
class Handled:
    """All lines so far."""

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
