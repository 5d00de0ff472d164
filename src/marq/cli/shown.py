"""Messages and queues as commands show them: plain values for JSON, short text for eyes."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import marq
from marq.backend import SeenHalf
from marq.cli import plain
from marq.core import duration
from marq.core.catalog.definitions import QueueDefinition
from marq.core.messages.stored import Stored
from marq.message import moment

Value = dict[str, Any]
_WIDTH = 60
_TIMES = ("sent_at", "due", "died_at")


def line(value: Any) -> str:
    """One line of JSON."""
    return plain.json(json.dumps(value, ensure_ascii=False))


def rows(found: list[Value], columns: tuple[str, ...], as_json: bool, otherwise: str) -> None:
    """Print them: a line of JSON each, or a table; a sentence where there are none."""
    if as_json:
        for each in found:
            typer.echo(line(each))
    elif found:
        table = Table()
        for column in columns:  # an id is there to be typed again: others give way
            table.add_column(column.replace("_", " "), no_wrap=column == "id")
        for each in found:
            table.add_row(*(cell(_short(column, each[column])) for column in columns))
        Console().print(table)
    else:
        typer.echo(otherwise, err=True)


def _short(column: str, value: Any) -> Any:
    return (value or "-")[:19] if column in _TIMES else value


def text_or_base64(data: bytes | None) -> str | Value | None:
    """Bytes as JSON: text where they are UTF-8, `{"base64": ...}` where they are not."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _headers(headers: Mapping[str, bytes | None]) -> Value:
    return {name: text_or_base64(value) for name, value in headers.items()}


def delivery(found: marq.Delivery[Any]) -> Value:
    """What a delivery is, payload last."""
    return {
        "message_id": found.message_id,
        "attempt": found.attempt,
        "sent_at": found.sent_at.isoformat(timespec="milliseconds"),
        "key": text_or_base64(found.key),
        "headers": _headers(found.headers),
        "payload": text_or_base64(found.raw),
    }


def stored(found: Stored) -> Value:
    """What a message is that waits in a log, payload last."""
    meta = found.meta()
    due_ms = meta.due_at(found.at_ms)
    return {
        "message_id": found.message_id(),
        "attempt": meta.attempt,
        "sent_at": moment(meta.sent_ms or found.at_ms).isoformat(timespec="milliseconds"),
        "due": moment(due_ms).isoformat(timespec="milliseconds") if due_ms else None,
        "key": text_or_base64(found.key),
        "headers": _headers(dict(found.user_headers())),
        "payload": text_or_base64(found.value or b""),
    }


def dead_letter(found: marq.DeadLetter) -> Value:
    """What a dead letter is, and what happened to it."""
    return {
        "message_id": found.message_id,
        "queue": found.queue,
        "reason": found.reason,
        "attempts": found.attempts,
        "sent_at": found.sent_at.isoformat(timespec="milliseconds"),
        "died_at": found.died_at.isoformat(timespec="milliseconds"),
        "key": text_or_base64(found.key),
        "headers": _headers(found.headers),
        "payload": text_or_base64(found.raw),
        "history": [
            {
                "attempt": past.attempt,
                "at": past.at.isoformat(timespec="milliseconds"),
                "worker": past.worker,
                "reason": past.reason,
            }
            for past in found.history
        ],
    }


def half(found: SeenHalf, now_ms: int) -> Value:
    """What a half message is, and what was answered so far."""
    about, meta = found.stored, found.stored.meta()
    terms = meta.half
    return {
        "id": about.address,
        "message_id": about.message_id(),
        "queue": meta.queue,
        "group": terms.group if terms else "",
        "owner": terms.owner if terms else "",
        "age": duration.text(max(0, now_ms - about.at_ms) // 1_000 * 1_000),
        "sent_at": moment(about.at_ms).isoformat(timespec="milliseconds"),
        "decided": found.is_decided,
        "asked": found.asked,
        "unknown": found.answers.unknown,
        "reasons": [said.reason for said in found.answers.said],
        "key": text_or_base64(about.key),
        "headers": _headers(dict(about.user_headers())),
        "payload": text_or_base64(about.value or b""),
    }


def sent(found: marq.Sent) -> Value:
    """Where a message is that was sent."""
    return {
        **asdict(found),
        "due": found.due.isoformat(timespec="milliseconds") if found.due else None,
    }


def sent_text(found: marq.Sent) -> str:
    """The same for eyes: the id, and the place where that is another name for it."""
    place = f"{found.topic}:{found.partition}:{found.offset}"
    there = "" if place == found.message_id else f" at {place}"
    due = f", due {found.due.isoformat(timespec='milliseconds')}" if found.due else ""
    return f"{found.message_id}{there}{due}"


def definition(name: str, found: QueueDefinition) -> Value:
    """A queue's options as they are written: durations as text."""
    options: Value = {"name": name}
    for field, value in msgspec.structs.asdict(found).items():
        if field.endswith("_ms"):
            options[field.removesuffix("_ms")] = _durations(value)
        elif field != "purged":
            options[field] = value
    return options


def _durations(value: int | tuple[int, ...] | None) -> Any:
    if value is None:
        return None
    return [duration.text(v) for v in value] if isinstance(value, tuple) else duration.text(value)


def cell(value: Any) -> Text:
    """A value in a table: short, on one line, and shown as it is."""
    return plain.styled(_on_one_line(value))


def _on_one_line(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list():
            return " to ".join(value)
        case {"base64": str(encoded)}:
            return f"base64 {encoded}"[:_WIDTH]
    text = " ".join(str(value).split())
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
