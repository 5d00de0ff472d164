"""`marq worker`: run handlers, in this process or in several that are watched."""

from __future__ import annotations

from typing import Annotated

import typer

from marq.cli import targets, working
from marq.cli.errors import clear_errors
from marq.cli.processes import Processes


def worker(
    queues: Annotated[list[str], typer.Argument(metavar="MODULE:QUEUE", help="such as app:orders")],
    processes: Annotated[int, typer.Option("--processes", min=1, help="how many work")] = 1,
    reload: Annotated[
        bool, typer.Option("--reload", help="start afresh when a .py file here changes")
    ] = False,
    parent: Annotated[int | None, typer.Option("--parent", hidden=True)] = None,
) -> None:
    """Run the handlers of queues until Ctrl-C or SIGTERM; then let them finish.

    The module is imported from the current directory and says where its broker is. One process
    works right here; several, or --reload, are watched: one that dies is started again.
    """
    if parent is not None:
        _as_child(queues, working.Parent(parent))
    elif processes > 1 or reload:
        raise typer.Exit(Processes(queues, processes, reload, _say).run())
    else:
        with clear_errors():
            working.work(queues, started=lambda: _say(f"works on {', '.join(queues)}"))


def _as_child(queues: list[str], parent: working.Parent) -> None:
    def started() -> None:
        files = [targets.file_of(queue) for queue in queues]
        parent.tell([file for file in files if file])

    with clear_errors():
        working.work(queues, started)


def _say(news: str) -> None:
    typer.echo(f"marq: {news}", err=True)
