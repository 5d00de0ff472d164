"""`marq send`, `marq receive`, `marq peek`: the messages of a queue."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from marq.cli import logs, plain, sending, shown
from marq.cli.options import Json, QueueName, Url, connected, duration, existing
from marq.cli.receiving import Receiving, Wanted
from marq.cli.sending import SentTeller
from marq.cli.signals import stop_asked
from marq.errors import QueueError
from marq.work.job import Deliveries

_COLUMNS = ("message_id", "attempt", "sent_at", "due", "key", "payload")


def send(
    queue: QueueName,
    payload: Annotated[
        str | None, typer.Argument(help="the payload as text; - or nothing: standard input")
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="each line of standard input is a message")
    ] = False,
    json_payload: Annotated[
        bool, typer.Option("--json-payload", help="refuse what is not JSON, send it as JSON")
    ] = False,
    key: Annotated[str | None, typer.Option(help="messages of one key go to one partition")] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="may be given many times")
    ] = None,
    delay: Annotated[
        str | None, typer.Option(metavar="DURATION", help="hand it out that much later, like 10m")
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="hand it out then, like 2030-01-31T08:00")
    ] = None,
    ttl: Annotated[
        str | None, typer.Option(metavar="DURATION", help="it expires after this long")
    ] = None,
    message_id: Annotated[str | None, typer.Option(help="an id of your own")] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Send a message; returns when it is durable and prints its id."""
    tell = SentTeller(as_json, quiet=lines)
    with connected(url) as broker:
        found = existing(broker, queue)
        options = sending.options(
            headers=sending.headers(header or [], json_payload) or None,
            delay=None if delay is None else duration(delay),
            at=None if at is None else sending.moment(at),
            ttl=None if ttl is None else duration(ttl),
            key=key,
            message_id=message_id,
        )
        payloads = sending.payloads(payload, lines, options)
        if json_payload:
            payloads = sending.checked_json(payloads, lines)
        try:
            sending.send_all(found, payloads, options, tell)
        finally:
            tell.summary(queue)


def receive(
    queue: QueueName,
    limit: Annotated[
        int | None,
        typer.Option("--max", min=1, help="messages at most; default: 1, with --follow no end"),
    ] = None,
    wait: Annotated[str, typer.Option(metavar="DURATION", help="for the next message")] = "5s",
    lease: Annotated[
        str | None, typer.Option(metavar="DURATION", help="default: the queue's")
    ] = None,
    ack: Annotated[
        bool, typer.Option("--ack/--no-ack", help="ack what was printed, or give it back")
    ] = True,
    follow: Annotated[bool, typer.Option("--follow", help="go on until interrupted")] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Take messages, print their payloads, then ack them.

    Only what was written out is acked; when the output breaks off, messages go back.
    """
    with connected(url) as broker, stop_asked() as stop:
        leased = None if lease is None else duration(lease)
        wanted = Wanted.of(limit, duration(wait), leased, ack, follow)
        found = existing(broker, queue)
        if follow:
            logs.show(logging.WARNING)
        run = Receiving(found, wanted, _as_json if as_json else _as_text, stop)
        run.run()
        if not run.count and not follow:
            typer.echo(f"nothing came within {wait}", err=True)
        if run.late:
            raise QueueError(f"{run.late} of {run.count} acks came too late")


def _as_json(batch: Deliveries) -> None:
    _write("".join(shown.line(shown.delivery(each)) + "\n" for each in batch).encode())


def _as_text(batch: Deliveries) -> None:
    """The bytes as they are; on a terminal what is not printable is escaped."""
    raw = (each.raw for each in batch)
    if sys.stdout.isatty():
        raw = (plain.lines(each.decode(errors="backslashreplace")).encode() for each in raw)
    _write(b"".join(each + b"\n" for each in raw))


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def peek(
    queue: QueueName,
    limit: Annotated[int, typer.Option(min=1, help="messages at most")] = 10,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Show messages that wait, oldest first, without taking them."""
    with connected(url) as broker:
        name = existing(broker, queue).name
        found = [shown.stored(each) for each in broker.backend.peek(name, limit)]
    shown.rows(found, _COLUMNS, as_json, f"nothing waits in {queue}")
