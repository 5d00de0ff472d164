"""`marq config`: the settings in force and where they come from."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from marq import settings
from marq.cli import plain
from marq.cli.errors import clear_errors
from marq.core import duration
from marq.settings import Settings

app = typer.Typer(help="Show the settings.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Show the settings."""


@app.command()
def show(as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False) -> None:
    """Print each setting, its value and where it comes from."""
    with clear_errors():
        loaded, origins = settings.load(), settings.origins()
    rows = {name: (_shown(loaded, name), origin) for name, origin in origins.items()}
    if as_json:
        found = {name: {"value": value, "from": origin} for name, (value, origin) in rows.items()}
        typer.echo(json.dumps(found))
        return
    table = Table("setting", "value", "from", "what it is")
    for name, (value, origin) in rows.items():
        row = (name, value, origin, Settings.model_fields[name].description)
        table.add_row(*map(plain.styled, row))
    Console().print(table)


def _shown(loaded: Settings, name: str) -> Any:
    value = loaded.shown(name)
    if settings.is_duration(name):
        return duration.text(value)
    return value if value is None or isinstance(value, dict | int) else str(value)
