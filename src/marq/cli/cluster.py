"""`marq status --url`: whether a cluster's tracker keeps time, and who it is."""

from __future__ import annotations

import contextlib
import logging
import time
from typing import Any, Protocol

import typer
from rich.console import Console, Group

import marq
from marq.cli import plain, shown
from marq.cli.options import connected
from marq.core.catalog.definitions import Catalog
from marq.core.messages.header import moment
from marq.core.names import Space
from marq.errors import ConfigError, QueueError

_WATCHED_S = 5.0
"""A tracker that keeps time says so twice a second."""
_PATIENCE_S = 30.0
"""One that has just been started begins within that."""
_LOOK_S = 0.1
_TO_DO = (
    "start one, with marq tracker --url: until then nothing comes back after its lease, nothing "
    "delayed by 10 s or more arrives, and there are no dead letters"
)

log = logging.getLogger("marq.worker")


class _SignOfLife(Protocol):
    @property
    def at_ms(self) -> int: ...

    @property
    def features(self) -> tuple[str, ...]: ...


class _Cluster(Protocol):
    """What is asked."""

    space: Space

    def catalog(self) -> Catalog: ...

    def sign_of_life(self) -> _SignOfLife: ...


def show(url: str, as_json: bool) -> None:
    """Print it."""
    with connected(url) as broker:
        found = _found(_cluster(broker))
    if as_json:
        typer.echo(shown.line(found))
    else:
        Console().print(Group(*(plain.styled(line) for line in _lines(found))))


def warn_if_nobody_keeps_time(broker: marq.Broker, patience_s: float = _PATIENCE_S) -> None:
    """Log it, for all goes well without a tracker until a message should come back."""
    cluster: Any = broker.backend
    if not hasattr(cluster, "sign_of_life"):
        return
    # Closed meanwhile, or not allowed to look: nothing needs it.
    with contextlib.suppress(QueueError, RuntimeError):
        if not _goes_on(cluster, cluster.sign_of_life().at_ms, patience_s):
            log.warning("no tracker keeps time", extra={"to_do": _TO_DO})


def _cluster(broker: marq.Broker) -> _Cluster:
    backend: Any = broker.backend
    if not hasattr(backend, "sign_of_life"):
        raise ConfigError("only a cluster has a tracker to ask for: --url kafka://host:9092,…")
    found: _Cluster = backend
    return found


def _found(cluster: _Cluster) -> dict[str, Any]:
    catalog, sign = cluster.catalog(), cluster.sign_of_life()
    keeps_time = _goes_on(cluster, sign.at_ms)
    sign = cluster.sign_of_life()
    return {
        "namespace": cluster.space.namespace,
        "queues": len(list(catalog.queues())),
        "tracker": {
            "keeps_time": keeps_time,
            "owner": catalog.owner() or None,
            "last_sign": moment(sign.at_ms).isoformat(timespec="seconds") if sign.at_ms else None,
            "features": list(sign.features),
        },
    }


def _goes_on(cluster: _Cluster, at_ms: int, patience_s: float = _WATCHED_S) -> bool:
    """Whether another sign of life comes: the clock of this machine says nothing about how old the
    last one is."""
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        if cluster.sign_of_life().at_ms > at_ms:
            return True
        time.sleep(_LOOK_S)
    return False


def _lines(found: dict[str, Any]) -> list[str]:
    tracker = found["tracker"]
    who = f" ({tracker['owner']})" if tracker["owner"] else ""
    if tracker["keeps_time"]:
        said = f"the tracker keeps time{who}"
    elif tracker["last_sign"]:
        said = f"no tracker keeps time; the last sign of life is of {tracker['last_sign']}{who}"
    else:
        said = "no tracker has ever kept time here: start one with marq tracker"
    queues = f"{found['queues']} queue{'' if found['queues'] == 1 else 's'}"
    where = f"namespace {found['namespace']}, " if found["namespace"] else ""
    return [said, f"{where}{queues}"]
