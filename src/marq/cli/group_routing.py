"""`marq group route`: copies a queue's messages to an ordered group, on Spark."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Any

import typer

from marq.cli import logs
from marq.cli.options import QueueName, Url, connected
from marq.cli.signals import stop_asked
from marq.errors import ConfigError
from marq.groups.names import group_names


def route(
    queue: QueueName,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="name of the group")],
    checkpoint: Annotated[Path, typer.Option(help="where the query notes how far it is")],
    master: Annotated[str, typer.Option(help="Spark's master")] = "local[2]",
    url: Url = None,
) -> None:
    """Copy the queue's messages to a group made with router="spark", until stopped."""
    with connected(url) as broker, stop_asked() as asked:
        backend: Any = broker.backend
        if backend.groups() is None:
            raise ConfigError("ordered groups need Kafka: connect to kafka:// or embedded://")
        from marq.spark import group_router  # Spark is loaded only where it is used

        logs.show(logging.WARNING)
        group_router.run(
            backend, group_names(queue, group, backend.space), checkpoint, master, asked
        )
