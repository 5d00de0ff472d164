"""`marq queue`: list, create, look at, change, empty and delete queues."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from marq.cli import shown
from marq.cli.options import Json, QueueName, Url, Yes, connected, existing, sure
from marq.cli.queue_options import (
    Backoff,
    DeadLetterOption,
    LeaseOption,
    MaxAttempts,
    Retention,
    Ttl,
    changes,
)
from marq.core.catalog.options import QueueOptions
from marq.errors import ConfigError

app = typer.Typer(
    help="List, create, look at, change, empty and delete queues.", no_args_is_help=True
)

_COLUMNS = ("name", "partitions", "lease", "max_attempts", "backoff", "dead_letter", "ttl")
_COUNTS = {
    "ready": "ready to be handed out",
    "in_flight": "handed out, not acked yet",
    "delayed": "wait for their time or their retry",
    "dead": "dead letters",
    "oldest_age": "seconds since the oldest open one was sent",
    "halves": "half messages that are not decided",
}


@app.command("ls")
def list_all(url: Url = None, as_json: Json = False) -> None:
    """List the queues and their options."""
    with connected(url) as broker:
        catalog = broker.backend.catalog()
        found = [shown.definition(name, queue) for name, queue in sorted(catalog.definitions())]
        newer = [name for name in catalog.queues() if catalog.is_newer(name)]
    if newer:
        typer.echo(f"made by a newer marq, upgrade to see them: {', '.join(newer)}", err=True)
    if as_json:
        return typer.echo(shown.line(found))
    if not found:
        return typer.echo("there are no queues: marq queue create NAME makes one", err=True)
    table = Table(*(column.replace("_", " ") for column in (*_COLUMNS, "paused")))
    for queue in found:
        table.add_row(*(shown.cell(queue[column]) for column in (*_COLUMNS, "paused")))
    Console().print(table)


@app.command()
def create(
    name: QueueName,
    lease: LeaseOption = None,
    max_attempts: MaxAttempts = None,
    backoff: Backoff = None,
    dead_letter: DeadLetterOption = None,
    ttl: Ttl = None,
    partitions: Annotated[int | None, typer.Option(help="fixed once it exists (4)")] = None,
    retention: Retention = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Create a queue; once more with the same options changes nothing.

    What is left out is as in parentheses.
    """
    given: QueueOptions = {
        **changes(lease, max_attempts, backoff, dead_letter, ttl, retention),
        **({} if partitions is None else {"partitions": partitions}),
    }
    with connected(url) as broker:
        known = name in broker.queues()
        queue = broker.queue(name, **given)
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
def update(
    name: QueueName,
    lease: LeaseOption = None,
    max_attempts: MaxAttempts = None,
    backoff: Backoff = None,
    dead_letter: DeadLetterOption = None,
    ttl: Ttl = None,
    no_ttl: Annotated[bool, typer.Option("--no-ttl", help="messages do not expire")] = False,
    retention: Retention = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Change options of a queue, for deliveries from now on.

    What is left out stays as it is; in parentheses is what a new queue has.
    """
    wanted = changes(lease, max_attempts, backoff, dead_letter, ttl, retention)
    if no_ttl:
        wanted["ttl"] = None
    with connected(url) as broker:
        if not wanted or (no_ttl and ttl is not None):
            raise ConfigError(
                "say what to change, such as --lease 1m: see marq queue update --help"
            )
        queue = existing(broker, name)
        queue.update(**wanted)
        found = shown.definition(name, queue.definition)
    typer.echo(shown.line(found) if as_json else f"queue {name} updated")


@app.command()
def pause(name: QueueName, url: Url = None) -> None:
    """Hand out no messages of a queue until it is resumed; sending goes on."""
    with connected(url) as broker:
        existing(broker, name).pause()
    typer.echo(f"queue {name} paused")


@app.command()
def resume(name: QueueName, url: Url = None) -> None:
    """Hand out a queue's messages again."""
    with connected(url) as broker:
        existing(broker, name).resume()
    typer.echo(f"queue {name} resumed")


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
