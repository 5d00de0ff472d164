"""Free ports for the brokers, and who sits on a taken one."""

from __future__ import annotations

import random
import socket

import psutil  # type: ignore[import-untyped]

HOST = "127.0.0.1"
# Below the range systems hand out for outgoing connections: a port kept over `down` stays free.
_RANGE = range(20_000, 32_000)


def is_free(port: int) -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as probe:
        # As the broker does: connections of its former life that linger are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def choose(count: int, rng: random.Random) -> tuple[int, ...]:
    """`count` different free ports."""
    candidates = (port for port in rng.sample(_RANGE, k=len(_RANGE)) if is_free(port))
    return tuple(port for port, _ in zip(candidates, range(count), strict=False))


def holder(port: int) -> str:
    """Who listens on the port, as well as this user may know."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.Error:
        return "another process"
    for found in connections:
        if found.status == psutil.CONN_LISTEN and found.laddr.port == port and found.pid:
            return f"process {found.pid} ({_name(found.pid)})"
    return "another process"


def _name(pid: int) -> str:
    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return "gone by now"
