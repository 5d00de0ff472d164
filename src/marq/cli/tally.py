"""Counts what a long command has done: shown while it goes on, checked when it is over."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from types import TracebackType

import typer
from rich.console import Console
from rich.status import Status

import marq
from marq.cli.signals import stop_asked
from marq.errors import QueueError

_EVERY_S = 5.0


class Tally:
    """Which dead letters are meant, and how many have been done so far."""

    def __init__(self, done: str, ids: list[str] | None) -> None:
        self._word = done
        self._ids = set(ids or ())
        self._met: set[str] = set()
        self._told_at = time.monotonic()
        self._shown: Status | None = None
        self._open = ExitStack()

    def __enter__(self) -> Tally:
        self.stop = self._open.enter_context(stop_asked())
        if sys.stderr.isatty():
            self._shown = Console(stderr=True).status(f"0 {self._word}")
            self._open.enter_context(self._shown)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._open.close()

    def wanted(self, letter: marq.DeadLetter) -> bool:
        """Whether this one is meant; asked for each before it is done."""
        if self._ids and letter.message_id not in self._ids:
            return False
        self._met.add(letter.message_id)
        return True

    def tell(self, done: int) -> None:
        """On a terminal at once, elsewhere a line now and then."""
        if self._shown:
            self._shown.update(f"{done:,} {self._word}")
        elif time.monotonic() - self._told_at >= _EVERY_S:
            self._told_at = time.monotonic()
            typer.echo(f"marq: {done:,} {self._word} so far", err=True)

    def check(self, queue: str, done: int) -> None:
        """Fails if not everything that was asked for was done."""
        if self.stop.is_set():
            raise QueueError(f"interrupted: {done:,} {self._word}; run it again for the rest")
        missing = sorted(self._ids - self._met)
        if missing:
            others = f"; {done:,} {self._word}" if done else ""
            raise QueueError(f"{queue} has no dead letter {', '.join(missing)}{others}")
