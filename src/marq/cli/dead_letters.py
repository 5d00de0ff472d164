"""`marq dlq`: look at what could not be delivered, send it again, or discard it."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from marq.cli import plain, shown
from marq.cli.options import Json, QueueName, Url, Yes, connected, dead_letters, sure
from marq.cli.tally import Tally
from marq.errors import QueueError

app = typer.Typer(
    help="Look at dead letters, send them again or discard them.", no_args_is_help=True
)
Ids = Annotated[
    list[str] | None, typer.Argument(metavar="ID", help="only these messages; default: all")
]
Limit = Annotated[int | None, typer.Option(min=1, help="at most this many, oldest first")]

_COLUMNS = ("message_id", "died_at", "attempts", "reason", "key", "payload")


@app.command("ls")
def list_all(
    queue: QueueName,
    limit: Annotated[int, typer.Option(min=1, help="at most this many, oldest first")] = 100,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List the dead letters of QUEUE, oldest first."""
    with connected(url) as broker:
        found = [shown.dead_letter(each) for each in dead_letters(broker, queue).list(limit)]
    shown.rows(found, _COLUMNS, as_json, f"{queue} has no dead letters")


@app.command()
def show(
    queue: QueueName,
    message_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="which; default: the oldest")
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Show one dead letter of QUEUE with its payload, headers and history."""
    with connected(url) as broker:
        found = dead_letters(broker, queue).list(
            1, lambda each: message_id in (None, each.message_id)
        )
        if not found:
            raise QueueError(f"{queue} has no dead letter{f' {message_id}' if message_id else 's'}")
    letter = shown.dead_letter(found[0])
    if as_json:
        typer.echo(shown.line(letter))
    else:
        _print(letter)


def _print(letter: shown.Value) -> None:
    console = Console(highlight=False, soft_wrap=True)
    history = letter.pop("history")
    for name, value in letter.items():
        shown_value = value if isinstance(value, str) else shown.line(value)
        console.print(Text(f"{name.replace('_', ' '):<12}{plain.lines(shown_value)}"))
    table = Table("attempt", "ended at", "worker", "why", title="history", title_justify="left")
    for past in history:
        table.add_row(*(shown.cell(past[name]) for name in ("attempt", "at", "worker", "reason")))
    if history:
        console.print(table)


@app.command()
def redrive(
    queue: QueueName,
    ids: Ids = None,
    limit: Limit = None,
    rate: Annotated[float | None, typer.Option(help="at most this many a second")] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Send dead letters to QUEUE again, oldest first: attempts from 1, history kept.

    Interrupted, it stops after those in hand; nothing is lost, and it can be run again.
    """
    with connected(url) as broker, Tally("redriven", ids) as tally:
        letters = dead_letters(broker, queue)
        done = letters.redrive(limit, rate, tally.wanted, progress=tally.tell, stop=tally.stop)
        tally.check(queue, done)
    _tell(as_json, "redriven", done, f"redriven to {queue}")


@app.command()
def discard(
    queue: QueueName,
    ids: Ids = None,
    limit: Limit = None,
    yes: Yes = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Remove dead letters of QUEUE for good, oldest first."""
    with connected(url) as broker:
        letters = dead_letters(broker, queue)
        sure(_question(queue, ids, limit), yes)
        with Tally("discarded", ids) as tally:
            done = letters.discard(limit, tally.wanted, progress=tally.tell, stop=tally.stop)
            tally.check(queue, done)
    _tell(as_json, "discarded", done, f"of {queue} discarded")


def _question(queue: str, ids: list[str] | None, limit: int | None) -> str:
    which = f"{len(ids)} of the" if ids else "all" if limit is None else f"the oldest {limit}"
    return f"discard {which} dead letters of {queue} for good?"


def _tell(as_json: bool, name: str, done: int, text: str) -> None:
    if as_json:
        typer.echo(shown.line({name: done}))
    else:
        typer.echo(f"{done} dead letter{'' if done == 1 else 's'} {text}")
