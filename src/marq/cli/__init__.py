"""The command line: one file a command group; a command parses, calls one function, prints."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from marq.cli import (
    bench,
    checks,
    config,
    dead_letters,
    demo,
    groups,
    halves,
    logs,
    messages,
    queues,
    runtime,
    tracker,
    worker,
)

app = typer.Typer(
    name="marq",
    help="A complete message queue on Apache Kafka.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(runtime.up)
app.command()(runtime.down)
app.command()(runtime.status)
app.command()(demo.demo)
app.command()(bench.bench)
app.command()(messages.send)
app.command()(messages.receive)
app.command()(messages.peek)
app.command()(worker.worker)
app.command()(checks.checks)
app.command()(tracker.tracker)
app.add_typer(queues.app, name="queue")
app.add_typer(dead_letters.app, name="dlq")
app.add_typer(groups.app, name="group")
app.add_typer(halves.app, name="half")
app.add_typer(config.app, name="config")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"marq {version('marq')}")
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """A complete message queue on Apache Kafka."""
    logs.hush()


def main(arguments: list[str] | None = None) -> None:
    """The `marq` command."""
    app(arguments)
