"""`marq queue`: list, create, look at, empty and delete queues."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from marq.cli import shown
from marq.cli.options import Json, QueueName, Url, Yes, connected, duration, existing, sure

app = typer.Typer(help="List, create, look at, empty and delete queues.", no_args_is_help=True)

_COLUMNS = ("name", "partitions", "lease", "max_attempts", "backoff", "dead_letter", "ttl")
_COUNTS = {
    "ready": "ready to be handed out",
    "in_flight": "handed out, not acked yet",
    "delayed": "wait for their time or their retry",
    "dead": "dead letters",
    "oldest_age": "seconds since the oldest open one was sent",
}


@app.command("ls")
def list_all(url: Url = None, as_json: Json = False) -> None:
    """List the queues and their options."""
    with connected(url) as broker:
        catalog = broker.backend.catalog()
        found = [shown.definition(name, queue) for name, queue in catalog.definitions()]
        newer = [name for name in catalog.queues() if catalog.is_newer(name)]
    if newer:
        typer.echo(f"made by a newer marq, upgrade to see them: {', '.join(newer)}", err=True)
    if as_json:
        return typer.echo(shown.line(found))
    table = Table(*(column.replace("_", " ") for column in (*_COLUMNS, "paused")))
    for queue in found:
        table.add_row(*(shown.cell(queue[column]) for column in (*_COLUMNS, "paused")))
    Console().print(table)


@app.command()
def create(
    name: QueueName,
    lease: Annotated[
        str | None, typer.Option(metavar="DURATION", help="how long a delivery may take (30s)")
    ] = None,
    max_attempts: Annotated[int | None, typer.Option(help="then it is a dead letter (5)")] = None,
    backoff: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="FIRST LONGEST", help="waits between attempts (1s 5m)"),
    ] = None,
    dead_letter: Annotated[
        bool | None,
        typer.Option("--dead-letter/--no-dead-letter", help="keep what died, or drop it (keep)"),
    ] = None,
    ttl: Annotated[
        str | None, typer.Option(metavar="DURATION", help="messages expire after this long (never)")
    ] = None,
    partitions: Annotated[int | None, typer.Option(help="fixed once it exists (4)")] = None,
    retention: Annotated[
        str | None, typer.Option(metavar="DURATION", help="how long acked messages are kept (0s)")
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Create a queue; once more with the same options changes nothing.

    What is left out is as in parentheses.
    """
    given: dict[str, Any] = {
        "lease": None if lease is None else duration(lease),
        "max_attempts": max_attempts,
        "backoff": None if backoff is None else tuple(map(duration, backoff)),
        "dead_letter": dead_letter,
        "ttl": None if ttl is None else duration(ttl),
        "partitions": partitions,
        "retention": None if retention is None else duration(retention),
    }
    with connected(url) as broker:
        known = name in broker.queues()
        queue = broker.queue(name, **{option: it for option, it in given.items() if it is not None})
        found = shown.definition(name, queue.definition)
    if as_json:
        return typer.echo(shown.line({**found, "created": not known}))
    typer.echo(f"queue {name} {'was there already' if known else 'created'}")


@app.command()
def show(name: QueueName, url: Url = None, as_json: Json = False) -> None:
    """Show a queue's options and how many messages it has.

    On Kafka the counts are the tracker's, about a second old; where none ever ran, from a look at
    the logs.
    """
    with connected(url) as broker:
        queue = existing(broker, name)
        options, stats = shown.definition(name, queue.definition), asdict(queue.stats())
    if as_json:
        return typer.echo(shown.line({**options, "stats": stats}))
    table = Table("option", "value", title=f"queue {name}", title_justify="left")
    for option, value in options.items():
        if option != "name":
            table.add_row(option.replace("_", " "), shown.cell(value))
    counts = Table("messages", "count", "which")
    for count, value in stats.items():
        counts.add_row(count.replace("_", " "), f"{value:,}", _COUNTS[count])
    Console().print(table, counts)


@app.command()
def delete(name: QueueName, yes: Yes = False, url: Url = None) -> None:
    """Delete a queue with all its messages; its dead letters stay."""
    with connected(url) as broker:
        queue = existing(broker, name)
        sure(f"delete queue {name} with all its messages?", yes)
        broker.delete_queue(queue.name)
    typer.echo(f"queue {name} deleted")


@app.command()
def purge(name: QueueName, yes: Yes = False, url: Url = None) -> None:
    """Void all that was sent to a queue so far, in flight and delayed too."""
    with connected(url) as broker:
        queue = existing(broker, name)
        sure(f"void every message of {name}, in flight and delayed too?", yes)
        queue.purge()
    typer.echo(f"queue {name} purged")
