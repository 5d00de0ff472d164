"""`marq demo`: the semantics live in memory, then a real Kafka with real worker processes."""

from __future__ import annotations

import logging
import time
from typing import Annotated

import typer
from rich.table import Table

from marq.cli import demo_kafka, demo_memory
from marq.cli.demo_stage import console, say
from marq.cli.errors import clear_errors


def demo(
    memory_only: Annotated[
        bool, typer.Option("--memory-only", help="leave the real Kafka out")
    ] = False,
) -> None:
    """Show marq live; ends by itself with a summary."""
    logging.getLogger("marq").setLevel(logging.CRITICAL)  # what fails here fails on purpose
    with clear_errors():
        started = time.monotonic()
        summary = Table("what", "seen", title="summary", title_justify="left")
        demo_memory.in_memory(summary)
        if not memory_only:
            demo_kafka.on_kafka(summary)
        console.print(summary)
        say(f"done in {time.monotonic() - started:.0f} s")
