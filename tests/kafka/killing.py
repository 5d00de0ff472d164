"""Kills threads of this process, as nothing in them is made for."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

PATIENCE_S = 60.0


class Killed(BaseException):
    """What is injected: nothing in a thread is made for it."""


def kill(name: str, wake: Callable[[], object] = lambda: None) -> None:
    """End the youngest thread of this name by an exception, at whatever it is.

    It comes when the thread is next in Python: `wake` has it return from where it waits for ever.
    """
    *_, victim = [each for each in threading.enumerate() if each.name == name]
    assert victim.ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(victim.ident), ctypes.py_object(Killed)
    )
    wake()
    victim.join(PATIENCE_S)
    assert not victim.is_alive(), f"{name} lives on"
