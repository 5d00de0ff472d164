"""The options of a queue on the command line."""

from __future__ import annotations

from typing import Annotated, Any, cast

import typer

from marq.cli.options import duration
from marq.core.catalog.options import QueueChanges

LeaseOption = Annotated[
    str | None, typer.Option(metavar="DURATION", help="how long a delivery may take (30s)")
]
MaxAttempts = Annotated[int | None, typer.Option(help="then it is a dead letter (5)")]
Backoff = Annotated[
    tuple[str, str] | None,
    typer.Option(metavar="FIRST LONGEST", help="waits between attempts (1s 5m)"),
]
DeadLetterOption = Annotated[
    bool | None,
    typer.Option("--dead-letter/--no-dead-letter", help="keep what died, or drop it (keep)"),
]
Ttl = Annotated[
    str | None, typer.Option(metavar="DURATION", help="messages expire after this long (never)")
]
Retention = Annotated[
    str | None, typer.Option(metavar="DURATION", help="how long acked messages are kept (0s)")
]


def changes(
    lease: str | None,
    max_attempts: int | None,
    backoff: tuple[str, str] | None,
    dead_letter: bool | None,
    ttl: str | None,
    retention: str | None,
) -> QueueChanges:
    """Those that were given."""
    found: dict[str, Any] = {
        "lease": None if lease is None else duration(lease),
        "max_attempts": max_attempts,
        "backoff": None if backoff is None else tuple(map(duration, backoff)),
        "dead_letter": dead_letter,
        "ttl": None if ttl is None else duration(ttl),
        "retention": None if retention is None else duration(retention),
    }
    return cast(QueueChanges, {name: it for name, it in found.items() if it is not None})
