"""`marq demo`: the semantics live in memory, then a real Kafka with real worker processes."""

from __future__ import annotations

import logging
import time
from typing import Annotated

import typer

from marq.cli import demo_kafka, demo_memory, shown
from marq.cli.demo_stage import Summary, console, say
from marq.cli.errors import clear_errors
from marq.cli.options import Json


def demo(
    memory_only: Annotated[
        bool, typer.Option("--memory-only", help="leave the real Kafka out")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show marq live; ends by itself with a summary.

    With --json only the summary goes to standard output.
    """
    console.stderr = as_json
    logging.getLogger("marq").setLevel(logging.CRITICAL)  # what fails here fails on purpose
    with clear_errors():
        started = time.monotonic()
        summary = Summary()
        demo_memory.in_memory(summary)
        if not memory_only:
            demo_kafka.on_kafka(summary)
        if as_json:
            typer.echo(shown.line(summary.rows))
        else:
            console.print(summary.table())
        say(f"done in {time.monotonic() - started:.0f} s")
