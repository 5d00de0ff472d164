"""`marq config`: the settings in force and where they come from."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from marq import settings
from marq.cli.errors import clear_errors
from marq.core import duration
from marq.settings import Settings

app = typer.Typer(help="Show the settings.", no_args_is_help=True)
_SECRET = ("password", "secret", "token", "key")


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
        table.add_row(name, str(value), origin, Settings.model_fields[name].description)
    Console().print(table)


def _shown(loaded: Settings, name: str) -> Any:
    value = getattr(loaded, name)
    if name == "kafka":
        return {key: "***" if _is_secret(key) else each for key, each in value.items()}
    if isinstance(value, int):
        return duration.text(value)
    return None if value is None else str(value)


def _is_secret(key: str) -> bool:
    return any(word in key for word in _SECRET)
