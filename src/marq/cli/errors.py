"""Errors as a command shows them: one sentence, exit code 2 for wrong use, 1 for failure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import typer

from marq.cli import plain
from marq.errors import ConfigError, PayloadError, QueueError


@contextlib.contextmanager
def clear_errors() -> Iterator[None]:
    """Turn marq's errors into a sentence and an exit code; anything else is a bug and shown so."""
    try:
        yield
    except QueueError as error:
        typer.echo(f"marq: {plain.lines(str(error))}", err=True)
        wrong_use = isinstance(error, ConfigError | PayloadError)
        raise typer.Exit(2 if wrong_use else 1) from None
