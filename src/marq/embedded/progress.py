"""Tells a waiting user what goes on, on stderr: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import Progress


def say(line: str) -> None:
    """One plain line on stderr."""
    print(f"marq: {line}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def bar(title: str, total: int) -> Iterator[Callable[[], None]]:
    """A function to call once a step, as long as the work lasts."""
    if sys.stderr.isatty():
        with Progress(console=Console(stderr=True), transient=True) as shown:
            task = shown.add_task(title, total=total)
            yield lambda: shown.advance(task)
    else:
        say(title)
        began = time.monotonic()
        yield lambda: None
        say(f"fetched in {time.monotonic() - began:.0f} s")
