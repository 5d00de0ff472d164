"""`marq checks`: answer for a producer group, and do nothing else."""

from __future__ import annotations

from typing import Annotated

import typer

from marq.cli import logs, targets
from marq.cli.errors import clear_errors
from marq.cli.signals import stop_asked
from marq.errors import QueueError

_LOOK_S = 0.5


def checks(
    group: Annotated[str, typer.Argument(metavar="MODULE:GROUP", help="such as app:shop")],
) -> None:
    """Answer what a producer group is asked, until Ctrl-C or SIGTERM.

    The module is imported from the current directory; it has the group, with its check.
    """
    with clear_errors(), stop_asked() as stop:
        found = targets.producer_group(group)
        logs.show()
        typer.echo(f"marq: answers for {group}", err=True)
        while not stop.wait(_LOOK_S):
            if found.members.failure is not None:
                raise QueueError(f"nothing is answered any more: {found.members.failure!r}")
        found.close()
