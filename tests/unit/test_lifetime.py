"""What nobody closes: finished at the end of the process, closed once nobody refers to it."""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading

import pytest

import marq
from marq import forks, lifetime

PATIENCE_S = 30.0


class Owner:
    """Whatever refers to a backend."""


class Backend:
    """Says what it is told."""

    def __init__(self, left: str = "") -> None:
        self.left = left
        self.held = False
        self.closed = threading.Event()

    def finish(self, timeout_s: float) -> str:
        return self.left

    def in_hands(self) -> bool:
        return self.held

    def close(self) -> None:
        self.closed.set()


def test_what_is_not_durable_at_the_end_is_waited_for_and_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    owner, backend = Owner(), Backend("7 acks")
    lifetime.watch(owner, backend)

    with caplog.at_level(logging.ERROR):
        lifetime._process.finish()
        lifetime._process.finish()  # multiprocessing ends what began with it, too

    assert caplog.text.count("not durable are: 7 acks") == 1


def test_a_backend_is_closed_once_nobody_refers_to_its_owner() -> None:
    owner, backend = Owner(), Backend()
    lifetime.watch(owner, backend)
    assert not backend.closed.is_set()

    del owner
    gc.collect()

    assert backend.closed.wait(PATIENCE_S)


def test_a_backend_is_not_closed_while_its_messages_are_in_someone_s_hands() -> None:
    owner, backend = Owner(), Backend()
    backend.held = True
    lifetime.watch(owner, backend)
    asked = threading.Event()

    def in_hands() -> bool:
        asked.set()
        return backend.held

    backend.in_hands = in_hands  # type: ignore[method-assign]
    del owner
    gc.collect()
    assert asked.wait(PATIENCE_S)
    assert not backend.closed.is_set()

    backend.held = False

    assert backend.closed.wait(PATIENCE_S)


class Kept:
    """Says when it is destroyed."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def __del__(self) -> None:
        os.write(self._pipe, b"destroyed ")


def in_child(does: object) -> bytes:
    """What a forked child says; it has no other way to end than `os._exit` under a test runner."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, does(writing))  # type: ignore[operator]
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as said:
        return said.read()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_memory_broker_is_an_error_in_a_child(marq_broker: marq.Broker) -> None:
    orders = marq_broker.queue("orders")
    orders.send(b"1")
    (delivery,) = orders.receive()

    def does(pipe: int) -> bytes:
        said = []
        for call in (lambda: orders.send(b"2"), orders.receive, delivery.ack, orders.stats):
            try:
                call()
            except marq.ConfigError as error:
                said.append("connect here" in str(error))
        marq_broker.close()
        with marq.connect("memory://orders") as own:
            own.queue("orders").send(b"3")
        return repr(said).encode()

    assert in_child(does) == b"[True, True, True, True]"
    delivery.ack()


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_what_is_to_be_kept_is_not_destroyed_in_a_child() -> None:
    reading, writing = os.pipe()
    kept, other = Kept(writing), Kept(writing)
    forks.keep(kept)
    child = os.fork()
    if not child:
        del kept
        os.write(writing, b"kept ")
        del other
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 100) == b"kept destroyed "
    del kept, other
    os.close(reading)
