"""`marq up`, `marq down`, `marq status`: the embedded runtime."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from marq import embedded, settings
from marq.cli import cluster
from marq.cli.errors import clear_errors
from marq.cli.options import Json
from marq.embedded import control, files, foreground, layout
from marq.embedded.state import RuntimeState
from marq.embedded.supervisor import SupervisorReport

Data = Annotated[
    Path | None,
    typer.Option(
        "--data", help="directory of the runtime; default: that of the setting url, or the user's"
    ),
]


def up(
    brokers: Annotated[int | None, typer.Option(help="1 or 3; kept with the directory")] = None,
    data: Data = None,
    port: Annotated[int | None, typer.Option(help="first port; default: free ones")] = None,
    detach: Annotated[bool, typer.Option("--detach", help="return when it is ready")] = False,
    tracker: Annotated[
        bool, typer.Option("--tracker/--no-tracker", help="keep time: redelivery, delays, …")
    ] = True,
    as_json: Json = False,
) -> None:
    """Run Kafka and the tracker on this machine, or join the runtime that runs already."""
    with clear_errors():
        data = _directory(data)
        wanted = layout.wanted(brokers, port, tracker)
        if detach:
            _tell(embedded.start(data, brokers, port, tracker=tracker), as_json)
        else:
            _up_here(files.home(data), wanted, as_json)


def down(data: Data = None) -> None:
    """Stop the runtime; its data stays."""
    with clear_errors():
        stopped = embedded.stop(_directory(data))
        typer.echo("stopped" if stopped else "nothing was running")


def status(
    data: Data = None,
    url: Annotated[
        str | None, typer.Option("--url", help="a cluster instead: whether its tracker keeps time")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what runs."""
    if url is not None:
        return cluster.show(url, as_json)
    with clear_errors():
        found = embedded.status(_directory(data))
        if as_json:
            typer.echo(found.to_json())
        else:
            Console().print(_status_view(found))


def _directory(data: Path | None) -> Path | None:
    """What was named, else where `marq.connect()` looks: MARQ_URL=embedded:///dir names it too."""
    url = urlsplit(settings.load().url)
    return data or (Path(url.path) if url.scheme == "embedded" and url.path else None)


def _up_here(home: files.RuntimeHome, wanted: layout.WantedLayout, as_json: bool) -> None:
    while True:
        joined = control.join(home, wanted)
        if joined:
            return _tell(joined, as_json)
        control.fetch(wanted)  # before the live table: its progress has a display of its own
        with contextlib.suppress(foreground.AlreadyRunning), _shown(home, as_json) as report:
            return foreground.supervise(home, wanted, report)


def _tell(runtime: embedded.Runtime, as_json: bool) -> None:
    if as_json:
        found = {"bootstrap_servers": runtime.bootstrap_servers, "joined": runtime.joined}
        typer.echo(json.dumps({**found, "directory": str(runtime.directory)}))
    elif runtime.joined:
        typer.echo(f"already running, joined it: {runtime.bootstrap_servers}")
    else:
        typer.echo(
            f"ready at {runtime.bootstrap_servers}; stop it with: marq down{_option(runtime)}"
        )


def _option(runtime: embedded.Runtime) -> str:
    default = runtime.directory == files.home(None).path
    return "" if default else f" --data {shlex.quote(str(runtime.directory))}"


@contextlib.contextmanager
def _shown(home: files.RuntimeHome, as_json: bool) -> Iterator[SupervisorReport]:
    """How the foreground shows what happens: JSON once, a live table, or plain lines."""
    if as_json:
        yield _once_json(home)
    elif sys.stdout.isatty():
        with Live(console=Console(), auto_refresh=False) as live:
            yield lambda state, news: _refresh(live, state, news)
    else:
        yield lambda _, news: typer.echo(news)


def _once_json(home: files.RuntimeHome) -> SupervisorReport:
    printed = False

    def report(state: RuntimeState, news: str) -> None:
        nonlocal printed
        typer.echo(news, err=True)
        if state.phase == "running" and not printed:
            printed = True
            _tell(embedded.Runtime(home.path, state.bootstrap_servers, joined=False), as_json=True)

    return report


def _refresh(live: Live, state: RuntimeState, news: str) -> None:
    if state.phase == "degraded":
        live.console.print(Text(news, style="yellow"))  # stays on the screen above the table
    table = _table()
    for broker in state.brokers:
        pid = str(broker.process.pid) if broker.process else "-"
        table.add_row(f"broker {broker.id}", pid, str(broker.port), str(broker.restarts))
    tracker = state.tracker
    pid = str(tracker.process.pid) if tracker.process else "-"
    table.add_row("tracker", pid, "-", str(tracker.restarts))
    headline = _headline(state.phase, state.bootstrap_servers)
    hint = Text(f"{news.splitlines()[0]}\nCtrl-C stops it")
    live.update(Group(headline, table, hint), refresh=True)


def _headline(word: str, servers: str) -> Text:
    return Text(f"marq runtime: {word}  {servers}", style="bold")


def _table(*more: str) -> Table:
    return Table("part", "pid", "port", "restarts", *more)


def _status_view(found: embedded.Status) -> Group:
    if found.status == "stopped" and not found.failure:
        hint = Text("nothing runs here: marq up starts it")
        return Group(_headline(found.status, ""), hint, Text(f"data in {found.directory}"))
    table = _table("up for", "log")
    for broker in found.brokers:
        row = (f"broker {broker.id}", str(broker.pid or "-"), str(broker.port))
        table.add_row(*row, *_lived(broker))
    tracker = found.tracker
    if tracker.wanted and found.brokers:
        table.add_row("tracker", str(tracker.pid or "-"), "-", *_lived(tracker))
    headline = _headline(found.status, found.bootstrap_servers)
    data = Text(f"data in {found.directory}")
    failure = [Text(f"it gave up: {found.failure}", style="red")] if found.failure else []
    return Group(headline, table, data, *_tracker_lines(found), *failure)


def _lived(child: embedded.BrokerStatus | embedded.TrackerStatus) -> tuple[str, str, str]:
    return str(child.restarts), f"{child.uptime:.0f} s", child.log


def _tracker_lines(found: embedded.Status) -> list[Text]:
    """Whether someone keeps time, and if not, why not."""
    tracker = found.tracker
    if found.supervisor_pid is None:
        return []
    if tracker.keeps_time:
        return [Text("the tracker keeps time")]
    alive = "the tracker keeps no time" if tracker.note else "the tracker is starting"
    missing = alive if tracker.alive else "no tracker runs"
    note = f": {tracker.note}" if tracker.note else ""
    return [Text(f"{missing}, nothing is redelivered or delayed meanwhile{note}", style="yellow")]
