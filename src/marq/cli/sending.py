"""What `marq send` does: payloads from somewhere, sent without waiting for each, told in order."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, BinaryIO, cast

import msgspec
import typer

import marq
from marq.cli import plain, shown
from marq.core.messages.payload import CONTENT_TYPE
from marq.core.messages.sending import SendOptions
from marq.errors import ConfigError, PayloadError
from marq.receipt import Receipt

Payload = str | bytes
WINDOW = 10_000
"""Messages under way at most: what an endless input costs in memory."""
STDIN = "-"
_JSON = "application/json"


class SentTeller:
    """Tells of each message that is durable, and how far a long input has come."""

    def __init__(self, as_json: bool, quiet: bool) -> None:
        self.count = 0
        self._as_json = as_json
        self._quiet = quiet
        self._live = sys.stderr.isatty()
        self._every_s = 0.5 if self._live else 10.0
        self._next = time.monotonic() + self._every_s

    def __call__(self, found: marq.Sent) -> None:
        self.count += 1
        if self._as_json:
            typer.echo(shown.line(shown.sent(found)))
        elif not self._quiet:
            typer.echo(plain.text(shown.sent_text(found)))
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self._every_s
            self._progress()

    def summary(self, queue: str) -> None:
        """How many there were, where they were not told one by one."""
        if self._quiet and not self._as_json:
            typer.echo(f"{self.count} messages sent to {queue}")

    def _progress(self) -> None:
        start, end = ("\r", "") if self._live else ("", "\n")
        typer.echo(f"{start}{self.count:,} messages sent{end}", nl=False, err=True)


def send_all(
    queue: marq.Queue[Any], payloads: Iterable[Payload], options: SendOptions, tell: SentTeller
) -> None:
    """Send them in order; what was sent before an error is told before it is raised."""
    under_way: deque[Receipt[marq.Sent]] = deque()

    def settle(most: int) -> None:
        while len(under_way) > most or (under_way and under_way[0].done()):
            tell(under_way.popleft().result())

    try:
        for payload in payloads:
            under_way.append(queue.send_nowait(payload, **options))
            settle(WINDOW)
    except PayloadError:
        settle(0)
        raise
    settle(0)


def options(**given: Any) -> SendOptions:
    """The options that were given."""
    found: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return cast(SendOptions, found)


def payloads(given: str | None, lines: bool, options: SendOptions) -> Iterable[Payload]:
    """The argument, or standard input: whole or line by line, as the bytes it is."""
    if lines and "message_id" in options:
        raise ConfigError("--message-id is one message's: it does not go with --lines")
    if given is not None and given != STDIN:
        if lines:
            raise ConfigError("--lines reads standard input: leave the payload out")
        return [given]
    if given is None and sys.stdin.isatty():
        raise ConfigError("give a payload, or - to type it here (end with Ctrl-D)")
    source: BinaryIO = sys.stdin.buffer
    return (each.removesuffix(b"\n") for each in source) if lines else [source.read()]


def checked_json(found: Iterable[Payload], lines: bool) -> Iterator[bytes]:
    """Each as it is, once it has proved to be JSON."""
    for number, each in enumerate(found, 1):
        data = each.encode() if isinstance(each, str) else each
        try:
            msgspec.json.decode(data)
        except (msgspec.MsgspecError, ValueError) as error:
            what = f"line {number}" if lines else "the payload"
            raise PayloadError(f"{what} is not JSON: {error}", size=len(data)) from None
        yield data


def headers(given: list[str], json_payload: bool) -> list[tuple[str, str | bytes]]:
    """NAME=VALUE pairs; a JSON payload says that it is one."""
    typed: list[tuple[str, str | bytes]] = [(CONTENT_TYPE, _JSON)] if json_payload else []
    return typed + [_pair(each) for each in given]


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ConfigError(f"a header is NAME=VALUE, not {text!r}")
    return name, value


def moment(text: str) -> datetime:
    """A time in ISO 8601; without a zone it is this machine's."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise ConfigError(
            f"at must be a time like 2030-01-31T08:00 or 2030-01-31T08:00+01:00, not {text!r}"
        ) from None
