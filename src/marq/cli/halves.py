"""`marq half`: look at half messages that nobody has decided, and decide them by hand."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

import marq
from marq.backend import SeenHalf
from marq.cli import plain, shown
from marq.cli.options import Json, Url, Yes, connected, sure
from marq.core.markers.marker import Check, HalfAnswer
from marq.errors import QueueError

app = typer.Typer(
    help="Look at half messages that nobody has decided, and decide them.", no_args_is_help=True
)
HalfId = Annotated[str, typer.Argument(metavar="ID", help="as marq half ls shows it")]
HalfIds = Annotated[list[str], typer.Argument(metavar="ID...", help="as marq half ls shows them")]

_COLUMNS = ("id", "queue", "group", "owner", "age", "asked", "unknown", "payload")
_PATIENCE_S = 30.0


@app.command("ls")
def list_all(
    queue: Annotated[
        str | None, typer.Argument(metavar="[QUEUE]", help="of this queue; default: all")
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List the half messages that are open, oldest first."""
    with connected(url) as broker:
        now_ms = broker.backend.now_ms()
        found = [shown.half(each, now_ms) for each in broker.backend.halves.seen()]
    wanted = [each for each in found if queue in (None, each["queue"])]
    whose = f"{queue} has" if queue else "there are"
    shown.rows(wanted, _COLUMNS, as_json, f"{whose} no half messages that are open")


@app.command()
def show(half_id: HalfId, url: Url = None, as_json: Json = False) -> None:
    """Show a half message with its payload, headers, and what was answered."""
    with connected(url) as broker:
        [found] = _find(broker, [half_id])
        half = shown.half(found, broker.backend.now_ms())
    if as_json:
        return typer.echo(shown.line(half))
    console = Console(highlight=False, soft_wrap=True)
    for name, value in half.items():
        text = value if isinstance(value, str) else shown.line(value)
        console.print(Text(f"{name.replace('_', ' '):<12}{plain.lines(text)}"))


@app.command()
def commit(ids: HalfIds, yes: Yes = False, url: Url = None, as_json: Json = False) -> None:
    """Have half messages delivered: their local transactions have happened."""
    _decide(ids, Check.COMMIT, yes, url, as_json)


@app.command()
def rollback(ids: HalfIds, yes: Yes = False, url: Url = None, as_json: Json = False) -> None:
    """Have half messages gone: their local transactions never happened, and never will."""
    _decide(ids, Check.ROLLBACK, yes, url, as_json)


def _decide(ids: list[str], verdict: Check, yes: bool, url: str | None, as_json: bool) -> None:
    with connected(url) as broker:
        found = _find(broker, ids)
        if decided := [each.stored.address for each in found if each.is_decided]:
            raise QueueError(f"{decided[0]} is decided already: the tracker sees to it")
        sure(f"{verdict} {len(found)} half message{'' if len(found) == 1 else 's'}?", yes)
        for each in found:
            answer = HalfAnswer((each.ref,), verdict, reason="an operator said so")
            broker.backend.halves.answer(each.stored.partition, answer).result(_PATIENCE_S)
    done = "committed" if verdict is Check.COMMIT else "rolled back"
    if as_json:
        typer.echo(shown.line({done.replace(" ", "_"): len(found)}))
    else:
        typer.echo(f"{len(found)} half message{'' if len(found) == 1 else 's'} {done}")


def _find(broker: marq.Broker, ids: list[str]) -> list[SeenHalf]:
    known = {each.stored.address: each for each in broker.backend.halves.seen()}
    if missing := [half_id for half_id in ids if half_id not in known]:
        raise QueueError(f"there is no open half message {missing[0]!r}: see marq half ls")
    return [known[half_id] for half_id in dict.fromkeys(ids)]
