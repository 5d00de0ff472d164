"""What stays over down and up: number of brokers, ports, cluster id."""

from __future__ import annotations

import base64
import random
import shutil
import uuid
from pathlib import Path

import msgspec

from marq.embedded import files, ports
from marq.embedded.files import RuntimeHome
from marq.embedded.process import ProcessId
from marq.errors import ConfigError, RuntimeFailed

SIZES = (1, 3)
_ROOM_PER_BROKER = 64 * 1024 * 1024


class Node(msgspec.Struct, frozen=True):
    """One broker's place: its number and its two ports on the loopback."""

    id: int
    port: int
    controller_port: int


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """A runtime as its directory was made."""

    cluster_id: str
    nodes: tuple[Node, ...]
    asked_port: int | None = None
    """The first port, if the user named one: then it must be that or none."""
    version: int = 1

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{ports.HOST}:{node.port}" for node in self.nodes)


class WantedLayout(msgspec.Struct, frozen=True):
    """What a caller asks for; None means: as the directory has it."""

    brokers: int | None
    port: int | None
    tracker: bool = True
    parent: ProcessId | None = None
    """The runtime it starts ends with this process; one that is joined does not."""


def wanted(
    brokers: int | None, port: int | None, tracker: bool = True, parent: int | None = None
) -> WantedLayout:
    """The wish, if it can be granted at all."""
    if brokers not in (None, *SIZES):
        raise ConfigError(f"an embedded runtime has 1 or 3 brokers, not {brokers}.")
    if port is not None and not 1 <= port <= 65_533:
        raise ConfigError(f"a port lies between 1 and 65533, and {port} does not.")
    return WantedLayout(brokers, port, tracker, None if parent is None else ProcessId.of(parent))


def read(home: RuntimeHome) -> Layout | None:
    """The directory's layout; None where there is nothing yet. Refuses a foreign directory."""
    files.refuse_others(home.path)
    found = files.read(home.layout, Layout)
    if found is None:
        _refuse_foreign(home.path)
    return found


def check(found: Layout, wanted: WantedLayout) -> None:
    """Refuses to join a runtime that is another than the one asked for."""
    _check_size(found, wanted)
    if wanted.port not in (None, found.nodes[0].port):
        raise ConfigError(
            f"the runtime listens on port {found.nodes[0].port}, not {wanted.port}: "
            "leave --port out or stop it first with marq down."
        )


def _check_size(found: Layout, wanted: WantedLayout) -> None:
    if wanted.brokers not in (None, len(found.nodes)):
        raise ConfigError(
            f"the runtime was made with {len(found.nodes)} broker(s), not {wanted.brokers}: "
            "leave --brokers out or name another directory with --data."
        )


def settle(home: RuntimeHome, wanted: WantedLayout, rng: random.Random) -> Layout:
    """The layout to start with, kept in the directory; only under the supervisor's lock."""
    kept = read(home)
    if kept is not None:
        _check_size(kept, wanted)
    start = kept or _new(wanted.brokers or 1)
    _check_room(home.path, len(start.nodes))
    chosen = _with_free_ports(start, wanted.port, rng)
    if chosen != kept:
        files.write(home.layout, chosen)
    return chosen


def _new(brokers: int) -> Layout:
    nodes = tuple(Node(number, 0, 0) for number in range(1, brokers + 1))
    # The letter in front: a leading minus would read as an option of Kafka's tools.
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return Layout(cluster_id="M" + cluster[1:], nodes=nodes)


def _with_free_ports(layout: Layout, port: int | None, rng: random.Random) -> Layout:
    asked = port or layout.asked_port
    size = len(layout.nodes)
    clients = tuple(range(asked, asked + size)) if asked else _kept_or_new(layout, rng)
    for taken in (number for number in clients if not ports.is_free(number)):
        raise RuntimeFailed(
            f"port {taken} is taken by {ports.holder(taken)}: stop it or choose another --port."
        )
    controllers = tuple(node.controller_port for node in layout.nodes)
    if set(controllers) & set(clients) or not _all_free(controllers):
        spare = ports.choose(2 * size, rng)
        controllers = tuple(number for number in spare if number not in clients)[:size]
    numbers = zip(layout.nodes, clients, controllers, strict=True)
    nodes = tuple(Node(node.id, client, other) for node, client, other in numbers)
    return msgspec.structs.replace(layout, nodes=nodes, asked_port=asked)


def _kept_or_new(layout: Layout, rng: random.Random) -> tuple[int, ...]:
    kept = tuple(node.port for node in layout.nodes)
    return kept if _all_free(kept) else ports.choose(len(kept), rng)


def _all_free(numbers: tuple[int, ...]) -> bool:
    return all(number and ports.is_free(number) for number in numbers)


def _refuse_foreign(directory: Path) -> None:
    if directory.exists() and not directory.is_dir():
        raise ConfigError(f"{directory} is not a directory: name another one with --data.")
    # Before its layout a runtime has a lock and a state: another process may be at it right now.
    if directory.is_dir() and any(not _early(entry.name) for entry in directory.iterdir()):
        raise ConfigError(
            f"{directory} is not empty and not a marq runtime: name another one with --data."
        )


def _early(name: str) -> bool:
    return name in ("lock", "state.json") or name.startswith(files.UNFINISHED)


def _check_room(directory: Path, brokers: int) -> None:
    free, needed = shutil.disk_usage(directory).free, brokers * _ROOM_PER_BROKER
    if free < needed:
        raise RuntimeFailed(
            f"{directory} has {free >> 20} MB free and {brokers} broker(s) need {needed >> 20} MB: "
            "free some space or name another directory with --data."
        )
