"""`marq status --url`: whether a cluster's tracker keeps time, and who it is."""

from __future__ import annotations

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
from marq.errors import ConfigError

_WATCHED_S = 5.0
"""A tracker that keeps time says so twice a second."""
_LOOK_S = 0.1


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


def _goes_on(cluster: _Cluster, at_ms: int) -> bool:
    """Whether another sign of life comes: the clock of this machine says nothing about how old the
    last one is."""
    until = time.monotonic() + _WATCHED_S
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
