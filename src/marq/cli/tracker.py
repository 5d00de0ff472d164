"""`marq tracker`: run the tracker on Spark, anywhere."""

from __future__ import annotations

import hashlib
import os
import queue
import signal
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marq import settings, threads
from marq.cli import logs
from marq.cli.errors import clear_errors
from marq.core.duration import milliseconds
from marq.errors import ConfigError, QueueError

if TYPE_CHECKING:
    from marq.spark.tracker import Tracker
    from marq.spark.trackers import Trackers

SUPERSEDED = 3
"""The exit code of a tracker that another one has replaced: it must not be started again."""
_SCHEME = "kafka://"
_END_S = 20.0
_LAST_PORT = 65_535
_LOOK_S = 0.2


def tracker(
    url: Annotated[
        str | None,
        typer.Option("--url", help="kafka://host:9092,…; default: the setting url"),
    ] = None,
    master: Annotated[
        str,
        typer.Option(
            "--master", help="Spark's master, such as spark://host:7077; default: local[2]"
        ),
    ] = "",
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", help="where Spark keeps its state; lost, it is built anew"),
    ] = None,
    metrics_port: Annotated[
        str,
        typer.Option(
            "--metrics-port",
            help="for Prometheus, on this machine, or ADDRESS:PORT; 0: none",
        ),
    ] = "0",
    tick: Annotated[
        str, typer.Option("--tick", help="how often time is told to the logs")
    ] = "100ms",
    conf: Annotated[
        list[str] | None, typer.Option("--conf", help="a setting of Spark, NAME=VALUE")
    ] = None,
    namespace: Annotated[
        list[str] | None,
        typer.Option("--namespace", help="whose time to keep; several in one Spark: once for each"),
    ] = None,
    skip_newer: Annotated[
        bool,
        typer.Option(
            "--skip-newer", help="go on past records of a newer marq, if you know that it was none"
        ),
    ] = False,
) -> None:
    """Keep time for all queues of a cluster: redelivery, retries, delays, dead letters.

    Runs until Ctrl-C or SIGTERM. Exit code 3: another tracker has taken over.
    """
    logs.show()
    with clear_errors():
        try:
            from marq.spark import trackers
            from marq.spark.tracker import Options
        except ImportError as error:
            raise ConfigError(
                f"the tracker needs Spark: pip install 'marq[spark]' ({error})"
            ) from None
        url = url or settings.load().url
        if not url.startswith(_SCHEME):
            raise ConfigError(f"a tracker's url is kafka://host:9092,…, not {url!r}")
        servers, namespaces = url.removeprefix(_SCHEME), _namespaces(namespace or [])
        host, port = _address(metrics_port)
        options = Options(
            servers=servers,
            checkpoint=checkpoint or default_checkpoint(servers, ",".join(namespaces)),
            master=master,
            tick_s=milliseconds(tick, "--tick") / 1_000,
            metrics_port=port,
            metrics_host=host,
            spark=_spark_settings(conf or []),
            skip_newer=skip_newer,
        )
        _run(trackers.made(options, namespaces))


def _namespaces(given: list[str]) -> list[str]:
    """Whose time is kept: that of the setting, unless some are named."""
    if len(set(given)) < len(given):
        raise ConfigError("--namespace names one twice: once for each is enough")
    return given or [settings.load().namespace]


def default_checkpoint(servers: str, namespace: str) -> Path:
    """A directory of its own for each namespace of each cluster, or for those of one application:
    what is in it can be lost without harm."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    whose = f"{servers}/{namespace}" if namespace else servers
    return Path(base, "marq", "tracker", hashlib.sha256(whose.encode()).hexdigest()[:16])


def _address(metrics: str) -> tuple[str, int]:
    """Where metrics are served: only this machine may ask, unless an address is named."""
    host, _, port = metrics.rpartition(":")
    if not port.isdecimal() or int(port) > _LAST_PORT:
        raise ConfigError(f"--metrics-port takes PORT or ADDRESS:PORT, not {metrics!r}")
    return host.strip("[]") or "127.0.0.1", int(port)


def _spark_settings(conf: list[str]) -> dict[str, str]:
    found = {}
    for setting in conf:
        name, equals, value = setting.partition("=")
        if not equals or not name.startswith("spark."):
            raise ConfigError(f"--conf takes spark.NAME=VALUE, not {setting!r}")
        found[name] = value
    return found


def _run(found: Tracker | Trackers) -> None:
    from marq.spark.tracker import Superseded

    # The one queue a signal handler may use: a lock may be held by whom it interrupts.
    signals: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: signals.put(number))

    def stop() -> None:
        signals.get()
        _end_at_last(1)
        found.stop()

    died: list[BaseException] = []

    def told_no_more(error: BaseException) -> None:
        died.append(error)
        found.stop()

    threads.start(stop, "marq-stop", lambda error: os._exit(1))
    threads.start(partial(_tell, found), "marq-told", told_no_more)
    try:
        found.run()
        if died:  # not as if it had been asked to: then nobody would start it again
            raise QueueError(f"nobody can be told whether time is kept: {died[0]!r}")
    except Superseded as superseded:
        typer.echo(f"marq: {superseded}", err=True)
        _end_at_last(SUPERSEDED)
        raise typer.Exit(SUPERSEDED) from None
    finally:
        _end_at_last(1)
        found.close()


def _end_at_last(code: int) -> None:
    """End the process in a while, however Spark stands: it may hang when it is stopped."""

    def end() -> None:
        time.sleep(_END_S)
        os._exit(code)

    threads.start(end, "marq-end", lambda error: os._exit(code))


def _tell(found: Tracker | Trackers) -> None:
    """Say when it keeps time and when it does not: the embedded runtime listens, and looks at the
    file for whether it still does."""
    told: dict[str, bool] = {}
    while not found.stopping:
        keeping = found.keeping
        found.touch()  # before it is told: whoever is told may look at once
        for whose, keeps in keeping.items():
            if keeps != told.get(whose, False):
                what = "keeps time" if keeps else "keeps no time: a batch that was due was not made"
                typer.echo(f"marq: the tracker{whose} {what}", err=True)
            told[whose] = keeps
        time.sleep(_LOOK_S)


if __name__ == "__main__":  # for spark-submit, which takes a file
    typer.run(tracker)
