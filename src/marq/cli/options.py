"""What commands share: common options, the connection, the queue that must exist."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Annotated, Any

import typer

import marq
from marq.cli.errors import clear_errors
from marq.core import names
from marq.core.duration import Duration
from marq.errors import ConfigError
from marq.memory.backend import Memory

Url = Annotated[
    str | None, typer.Option("--url", help="broker to connect to; default: the setting url")
]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="do not ask")]
QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="name of the queue")]


@contextmanager
def connected(url: str | None) -> Iterator[marq.Broker]:
    """A broker for one command; errors become a sentence and an exit code."""
    with clear_errors(), marq.connect(url) as broker:
        yield broker


def existing(broker: marq.Broker, name: str) -> marq.Queue[Any]:
    """The queue of this name; a mistyped name must not create one."""
    found = broker.queues()
    if names.queue_name(name) in found:
        return broker.queue(name)
    close = get_close_matches(name, found, 3)
    hint = f"did you mean {' or '.join(close)}? If not, " if close else ""
    here = "" if found else _nothing_here(broker)
    raise ConfigError(
        f"there is no queue {name!r}{here}: {hint}create it with: marq queue create {name}"
    )


def _nothing_here(broker: marq.Broker) -> str:
    in_memory = isinstance(broker.backend, Memory)
    return ", for memory:// is gone with its process; name a cluster" if in_memory else ""


def dead_letters(broker: marq.Broker, name: str) -> marq.DeadLetters:
    """The dead letters of this queue; they outlive it."""
    ever = broker.backend.catalog().version("queue", names.queue_name(name))
    return marq.DeadLetters(broker.backend, name) if ever else existing(broker, name).dead_letters


def sure(question: str, yes: bool) -> None:
    """Go on only if someone says so."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError("nobody is there to confirm it: say --yes")
    typer.confirm(question, abort=True)


def duration(text: str) -> Duration:
    """A duration as it is typed: a bare number is seconds, as everywhere."""
    return float(text) if text.replace(".", "", 1).isdecimal() else text
