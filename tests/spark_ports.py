"""Where a tracker's processes answer, and whether Spark's transport asks who is there."""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress

import psutil  # type: ignore[import-untyped]

_RPC_REQUEST, _RPC_FAILURE = 3, 5


def refuse_open_doors(
    processes: Sequence[psutil.Process], without_login: Collection[int] = ()
) -> None:
    """Fails unless all that listens does so for this machine alone, and Spark's own two places (the
    driver's endpoints and the store of blocks) want a login. The rest are py4j's, which wants a
    token of its own, the metrics, and what is asked for by the test."""
    places = [each for each in _listening(processes) if each[1] not in without_login]
    assert places
    assert not [ip for ip, _ in places if not ipaddress.ip_address(ip).is_loopback]
    assert [_asks_who_is_there(port) for _, port in places].count(True) == 2


def command_lines(processes: Sequence[psutil.Process]) -> Iterator[str]:
    """What every user can see of them; some end at any time."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            yield " ".join(process.cmdline())


def _listening(processes: Sequence[psutil.Process]) -> Iterator[tuple[str, int]]:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            for each in process.net_connections("tcp"):
                if each.status == psutil.CONN_LISTEN:
                    yield each.laddr.ip.removeprefix("::ffff:"), each.laddr.port


def _asks_who_is_there(port: int) -> bool:
    """Whether what listens there answers a request of Spark's transport by asking for a login.

    A frame of it: its length, the kind, the request's number, the length of the body, the body.
    """
    body = b"let me in"
    frame = struct.pack(">qbqi", 8 + 1 + 8 + 4 + len(body), _RPC_REQUEST, 7, len(body)) + body
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(frame)
        try:
            answer = connection.recv(4_096)
        except OSError:
            return False
    return answer[8:9] == bytes((_RPC_FAILURE,)) and b"SaslMessage" in answer
