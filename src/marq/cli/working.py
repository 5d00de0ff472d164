"""One worker process: finds its queues, runs their handlers, tells its parent if it has one."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable
from functools import partial

import typer

from marq import threads
from marq.cli import cluster, logs, targets
from marq.errors import ConfigError, QueueError
from marq.memory.backend import Memory


def work(wanted: list[str], started: Callable[[], None]) -> None:
    """Run the handlers of these queues until SIGTERM or SIGINT; then drain."""
    queues = targets.find(wanted)
    broker = targets.owner(queues)
    if isinstance(broker.backend, Memory):
        typer.echo("marq: memory:// is this process alone: nobody else can send to it", err=True)
    logs.show()
    worker = broker.worker(*queues)
    started()
    threads.start(
        partial(cluster.warn_if_nobody_keeps_time, broker), "marq-look", lambda error: None
    )
    with broker:
        try:
            worker.run()
        except ConfigError as error:  # it was right when it started
            raise QueueError(str(error)) from error


class Parent:
    """The process that started this one, at the other end of a socket."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        threads.start(self._outlive, "marq-parent", lambda error: _stop())

    def tell(self, files: list[str]) -> None:
        """Say that this process works, and which files it is made of."""
        self._socket.sendall(json.dumps({"files": files}).encode() + b"\n")

    def _outlive(self) -> None:
        """A parent that is gone cannot stop us any more: stop in its place."""
        if not self._socket.recv(1):
            _stop()


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
